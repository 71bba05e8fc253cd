// Warnings and notes for the person who runs the program. Nothing here writes to stdout.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>

namespace smla::core {

enum class LogLevel { debug = 0, info = 1, warning = 2, error = 3 };

using LogSink = std::function<void(LogLevel, std::string_view)>;

// Replaces the receiver of all messages; an empty sink restores the default, which prints warnings and errors to
// stderr (SMLA_LOG=debug|info|warning|error|off sets another threshold for it). Safe from any thread.
void set_log_sink(LogSink sink);

void log_message(LogLevel level, std::string_view message);

template <class... Args>
void warn(fmt::format_string<Args...> sentence, Args&&... args) {
  log_message(LogLevel::warning, "smla: " + fmt::format(sentence, std::forward<Args>(args)...));
}

template <class... Args>
void note(fmt::format_string<Args...> sentence, Args&&... args) {
  log_message(LogLevel::info, "smla: " + fmt::format(sentence, std::forward<Args>(args)...));
}

}  // namespace smla::core
