#include "emulator/crash.h"

#include <iterator>

#include "emulator/findings.h"
#include "emulator/global_memory.h"
#include "emulator/machine.h"

namespace smla::core::emulator {
namespace {

std::string crash_text(int signal, const void* address) {
  if (signal == SIGFPE) return "an integer division by zero (which does not trap on a GPU)";
  if (signal == SIGILL) return "an instruction that the host does not know";
  if (me().fiber.overflowed_at(address)) return "the stack of the emulated thread is full";
  if (const GlobalBuffer* buffer = buffer_at(address)) {
    return fmt::format("a plain access at byte {} of {}, which has {} bytes",
                       static_cast<const u8*>(address) - static_cast<const u8*>(buffer->data()),
                       buffer->name(), buffer->bytes());
  }
  return fmt::format("a plain access at {}", address);
}

// The fault is synchronous and comes from a lane's code, on its own stack: allocating is as safe as in the
// lane.
void on_signal(int signal, siginfo_t* info, void*) {
  if (!in_lane()) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  found_at_end("access-violation",
               crash_text(signal, info->si_addr) + ", after the call at " + place_mark(me().place));
  siglongjmp(machine().crash, 1);
}

alignas(16) unsigned char alternate_stack[64 * 1024];

}  // namespace

CrashGuard::CrashGuard() {
  stack_t stack = {};
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  sigaltstack(&stack, &stack_before_);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

CrashGuard::~CrashGuard() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  sigaltstack(&stack_before_, nullptr);
}

}  // namespace smla::core::emulator
