// Signals that a kernel's own machine code may raise, turned into findings.
#pragma once

#include <csignal>

namespace smla::core::emulator {

// While it lives, SIGSEGV, SIGBUS, SIGFPE and SIGILL inside a lane end the launch with a finding; elsewhere,
// and afterwards, they do what they did before.
class CrashGuard {
 public:
  CrashGuard();
  ~CrashGuard();
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  struct sigaction before_[4];
  stack_t stack_before_;
};

}  // namespace smla::core::emulator
