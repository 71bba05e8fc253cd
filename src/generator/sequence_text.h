// Pieces of the straight-line sequences that the generator writes out: nested loops that a compiler would
// unroll to the same code cost it three times as long.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace smla::core {

constexpr int kChunk = 32;  // columns of d_kv at a time: two accumulators of 16 registers beside d_q's 144

// Neighbouring chunks take turns.
inline std::string_view accumulator_of(int chunk) {
  return chunk % 2 == 0 ? "even" : "odd";
}

// The body of a function.
class SequenceLines {
 public:
  void add(std::string_view calls) {  // each line of `calls` indented
    while (!calls.empty()) {
      const auto end = calls.find('\n');
      text_ += fmt::format("  {}\n", calls.substr(0, end));
      calls = end == std::string_view::npos ? "" : calls.substr(end + 1);
    }
  }
  void blank() { text_ += "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace smla::core
