// How far a long run is, on stderr: a bar that is redrawn on a terminal, plain lines elsewhere.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace smla::core {

class Progress {
 public:
  explicit Progress(std::size_t total);
  ~Progress();  // leaves the cursor on a fresh line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more is done. `line` is printed where there is no terminal; `status` ("built 3, failed 0") stands
  // behind the bar.
  void advance(std::string_view line, std::string_view status);

  // A sentence of its own above the bar.
  void say(std::string_view sentence);

 private:
  void draw() const;

  std::size_t total_, done_ = 0;
  bool terminal_;
  std::string status_;
};

}  // namespace smla::core
