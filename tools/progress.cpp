#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace smla::core {
namespace {

constexpr std::size_t kBarWidth = 30;
constexpr const char* kClearLine = "\r\x1b[K";

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

Progress::Progress(std::size_t total) : total_(total), terminal_(stderr_is_terminal()) {
  draw();
}

Progress::~Progress() {
  if (terminal_) put(kClearLine);
}

void Progress::advance(std::string_view line, std::string_view status) {
  ++done_;
  status_ = status;
  if (!terminal_) put(fmt::format("{}/{} {}\n", done_, total_, line));
  draw();
}

void Progress::say(std::string_view sentence) {
  put(fmt::format("{}{}\n", terminal_ ? kClearLine : "", sentence));
  draw();
}

void Progress::draw() const {
  if (!terminal_) return;
  const std::size_t filled = total_ == 0 ? kBarWidth : kBarWidth * done_ / total_;
  put(fmt::format("{}[{}{}] {}/{} {}", kClearLine, std::string(filled, '#'),
                  std::string(kBarWidth - filled, '.'), done_, total_, status_));
}

}  // namespace smla::core
