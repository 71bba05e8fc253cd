#include "base/log.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

namespace smla::core {
namespace {

LogLevel threshold_from_environment() {
  const char* value = std::getenv("SMLA_LOG");
  const std::string_view name = value ? value : "warning";
  if (name == "debug") return LogLevel::debug;
  if (name == "info") return LogLevel::info;
  if (name == "error") return LogLevel::error;
  if (name == "off") return static_cast<LogLevel>(4);
  return LogLevel::warning;
}

void print_to_stderr(LogLevel level, std::string_view message) {
  static const LogLevel threshold = threshold_from_environment();
  if (level < threshold) return;
  const std::string line = std::string(message) + "\n";  // one write a line: processes share stderr
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::mutex sink_mutex;
std::shared_ptr<const LogSink> current_sink;  // null: print_to_stderr

}  // namespace

void set_log_sink(LogSink sink) {
  auto shared = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(sink_mutex);
  current_sink = std::move(shared);
}

void log_message(LogLevel level, std::string_view message) {
  std::shared_ptr<const LogSink> sink;
  {
    const std::lock_guard lock(sink_mutex);
    sink = current_sink;
  }
  if (sink) {
    (*sink)(level, message);  // outside the lock: a sink may log or replace itself
  } else {
    print_to_stderr(level, message);
  }
}

}  // namespace smla::core
