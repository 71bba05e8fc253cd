// Threads of a kernel are fibers: a stack of their own, switched by hand on one thread of the operating
// system.
#pragma once

#include <cstddef>

namespace smla::core::emulator {

class Fiber {
 public:
  Fiber();  // Error internal_error when there is no memory for a stack
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next switch_to begins `entry`, which never returns. The stack is filled with NaN bits as far down as
  // kernels reach, so that a register that was never written shows.
  void restart(void (*entry)());

  void switch_to();                               // from the scheduler into the fiber, until it calls leave()
  void leave();                                   // from the fiber to the scheduler
  bool overflowed_at(const void* address) const;  // the guard page below the stack

 private:
  void* stack_ = nullptr;  // guard page, then the stack
  void* fiber_pointer_ = nullptr;
  void* scheduler_pointer_ = nullptr;
};

}  // namespace smla::core::emulator
