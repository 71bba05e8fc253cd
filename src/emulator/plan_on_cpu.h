// The launch sequence of a call on the emulator: what src/plan enqueues on a GPU, run here to its end.
#pragma once

#include <string>
#include <vector>

#include "emulator/global_memory.h"
#include "emulator/host_compiler.h"
#include "emulator/report.h"
#include "generator/kernel_source.h"
#include "plan/call.h"
#include "reference/host_tensors.h"
#include "reference/layout.h"

namespace smla::core::emulator {

struct CpuOptions {
  std::uint64_t seed = 1;
  std::uint32_t virtual_sms = 2;  // CTAs side by side, 1 to 8, in whole clusters
  std::uint64_t step_limit = 50'000'000;
  int sort_shared_bytes =
      227 * 1024;  // what the list pre-pass may ask for; less makes it join lists that it cannot sort
};

// Tensors of a call in buffers of exact size; outputs are NaN bits until they are written.
struct CpuCall {
  Boxes boxes;
  GlobalBuffer q, kv, o, d_o, indices, topk_length, lse, attn_sink, delta;
  GlobalBuffer d_q, d_kv, d_sink;
  Call call;  // points into the buffers
};

CpuCall make_cpu_call(const Problem& problem, const HostTensors& tensors, OrderRequest order,
                      const Layout& layout = {});

// The outputs as numbers, in the shapes of the contract.
struct CpuOutputs {
  std::vector<double> d_q, d_kv, d_sink;
  bool surroundings_intact = true;  // what lies between and around the outputs is as it was
};
CpuOutputs outputs_of(const Problem& problem, const CpuCall& call);

// What a call with partial sums falls back on: the same problem with fp32 sums.
struct CpuFallback {
  const KernelSource& source;
  const CompiledKernels& kernels;
};

// Runs the launches of a call one after another, and those of the fallback behind them where there is one.
// Tensors that the call points to lie in GlobalBuffers; the workspace is made here, a buffer for each of its
// pieces. Errors: those of validating the call.
Report run_on_cpu(const KernelSource& source, const CompiledKernels& kernels, const Problem& problem,
                  const Config& config, const Call& call, const CpuOptions& options,
                  const CpuFallback* fallback = nullptr);

// What run_on_cpu has executed in this process so far; findings are left out.
struct Executed {
  std::uint64_t calls = 0;  // one order of execution each
  Report all;
};
Executed executed();

}  // namespace smla::core::emulator
