// One builder a key between processes. The kernel drops the lock of a holder that dies.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace smla::core {

class KeyLock {
 public:
  enum class State {
    held,         // until destruction, which also removes the file
    timed_out,    // another process has held it all the time
    unavailable,  // no lock can be had here: read-only directory, file system without locks
  };

  // Waits at most `wait` for the lock on `file`, which is created.
  KeyLock(std::filesystem::path file, std::chrono::milliseconds wait);
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;
  ~KeyLock();

  State state() const { return state_; }

 private:
  std::filesystem::path file_;
  State state_ = State::unavailable;
  int descriptor_ = -1;
};

// Removes a lock file or a temporary file whose holder is dead: nobody has it locked. Returns whether it did.
bool remove_abandoned(const std::filesystem::path& file);

}  // namespace smla::core
