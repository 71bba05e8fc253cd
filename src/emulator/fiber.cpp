#include "emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "base/error.h"

#if !defined(__x86_64__)
#error "the emulator's context switch is written for x86-64"
#endif

// Saves the callee-saved registers and the stack pointer, and takes up another stack.
asm(R"(
.text
.type smla_emulator_switch, @function
smla_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size smla_emulator_switch, .-smla_emulator_switch
)");
extern "C" void smla_emulator_switch(void** save, void* to);

namespace smla::core::emulator {
namespace {

constexpr std::size_t kStackBytes = 128 << 10;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kFilledBytes = 12 << 10;
constexpr std::size_t kSavedRegisters = 6;

}  // namespace

Fiber::Fiber() {
  stack_ = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack_ == MAP_FAILED) {
    stack_ = nullptr;
    fail(Status::internal_error, "no memory for a stack of {} bytes", kStackBytes);
  }
  mprotect(stack_, kGuardBytes, PROT_NONE);
}

Fiber::~Fiber() {
  if (stack_) munmap(stack_, kGuardBytes + kStackBytes);
}

void Fiber::restart(void (*entry)()) {
  char* top = static_cast<char*>(stack_) + kGuardBytes + kStackBytes;
  std::memset(top - kFilledBytes, 0xff, kFilledBytes);
  void** pointer = reinterpret_cast<void**>(top - 64);
  *--pointer = nullptr;  // entry's return address
  *--pointer = reinterpret_cast<void*>(entry);
  for (std::size_t i = 0; i < kSavedRegisters; ++i) *--pointer = nullptr;
  fiber_pointer_ = pointer;
}

void Fiber::switch_to() {
  smla_emulator_switch(&scheduler_pointer_, fiber_pointer_);
}

void Fiber::leave() {
  smla_emulator_switch(&fiber_pointer_, scheduler_pointer_);
}

bool Fiber::overflowed_at(const void* address) const {
  const auto a = reinterpret_cast<std::uintptr_t>(address), low = reinterpret_cast<std::uintptr_t>(stack_);
  return a >= low && a < low + kGuardBytes;
}

}  // namespace smla::core::emulator
