#include "cache/key_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace smla::core {
namespace {

using Clock = std::chrono::steady_clock;

// A lock needs no right to write, except where NFS makes it a lock of bytes: so with it when we may, else
// without.
int open_lock(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor >= 0 || errno != EACCES) return descriptor;
  return open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

// Whether the path still leads to what was opened: the last holder removes the file, and a lock on a removed
// file excludes nobody.
bool is_current(int descriptor, const std::filesystem::path& file) {
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor, &opened) == 0 && lstat(file.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

KeyLock::KeyLock(std::filesystem::path file, std::chrono::milliseconds wait) : file_(std::move(file)) {
  const auto deadline = Clock::now() + wait;
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    if (descriptor_ < 0) descriptor_ = open_lock(file_);
    if (descriptor_ < 0) return;
    if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
      if (is_current(descriptor_, file_)) {
        state_ = State::held;
        return;
      }
    } else if (errno == EWOULDBLOCK) {
      const auto now = Clock::now();
      if (now >= deadline) {
        state_ = State::timed_out;
        return;
      }
      std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
      pause = std::min(2 * pause, std::chrono::milliseconds(20));
      if (is_current(descriptor_, file_)) continue;
    } else if (errno != EINTR) {
      return;
    }
    close(descriptor_);
    descriptor_ = -1;
  }
}

KeyLock::~KeyLock() {
  if (descriptor_ < 0) return;
  if (state_ == State::held) {
    unlink(file_.c_str());        // while it is held, so that nobody else's lock is removed
    flock(descriptor_, LOCK_UN);  // a child of a fork may have the descriptor too
  }
  close(descriptor_);
}

bool remove_abandoned(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool removed =
      flock(descriptor, LOCK_EX | LOCK_NB) == 0 && is_current(descriptor, file) && unlink(file.c_str()) == 0;
  close(descriptor);
  return removed;
}

}  // namespace smla::core
