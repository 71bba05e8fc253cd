// How the parts of the emulator speak up.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace smla::core::emulator {

// Records a finding at the running lane's place (or at `place`) and goes on.
void found(std::string_view kind, const std::string& text, const void* place = nullptr);

// The same, and ends the run: the lane never comes back.
[[noreturn]] void found_fatal(std::string_view kind, const std::string& text);

// A finding without a lane, which ends the run.
void found_at_end(std::string_view kind, const std::string& text);

// A place of the machine code inside a finding's text.
std::string place_mark(const void* place);

template <class... Args>
void found(std::string_view kind, fmt::format_string<Args...> text,
           Args&&... args) requires(sizeof...(Args) > 0) {
  found(kind, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
[[noreturn]] void found_fatal(std::string_view kind, fmt::format_string<Args...> text,
                              Args&&... args) requires(sizeof...(Args) > 0) {
  found_fatal(kind, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace smla::core::emulator
