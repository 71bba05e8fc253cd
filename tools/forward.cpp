#include "forward.h"

#include <fmt/format.h>

#include "base/error.h"
#include "compiler/compiler.h"
#include "config/arch.h"
#include "driver/library.h"
#include "driver/stream.h"
#include "forward_text.h"
#include "generator/kernel_source.h"

namespace smla::core {
namespace {

// As in forward.cuh.
struct ForwardArguments {
  const void* q;
  const void* kv;
  const void* indices;
  const void* topk_length;
  const void* attn_sink;
  void* o;
  void* lse;
  long long query_offset;
  int queries;
  int keys;
  int topk;
  int length_per_group;
  float scale;
};

constexpr int kHeads = 16;  // a CTA
constexpr int kThreads = 256;
constexpr const char* kSymbol = "smla_forward";

std::string constants(const Problem& p) {
  return fmt::format(
      "struct Shape {{\n  static constexpr int heads = {}, kv_groups = {}, d_v = {}, d_qk = {};\n"
      "  static constexpr bool bf16 = {}, causal = {}, has_sink = {}, has_topk_length = {}, lse_base_2 = "
      "{},\n"
      "                        lse_includes_sink = {};\n}};\n\n",
      p.heads, p.kv_groups, p.d_v, p.d_qk(), p.dtype == DType::bf16, p.causal, p.has_sink, p.has_topk_length,
      p.lse_base == LseBase::two, p.lse_includes_sink);
}

}  // namespace

KernelSource forward_source(const Problem& problem) {
  KernelSource source;
  source.name = "forward-" + canonical_name(problem);
  source.parts = {{"constants", constants(problem)}, {"forward.cuh", kForwardText}};
  return source;
}

// sizeof(ForwardShared).
int forward_shared_bytes(const Problem& p) {
  const int q = kHeads * p.d_qk() * 4, rows = 32 * (p.d_qk() + 2) * 2, scores = 32 * kHeads * 4;
  return q + rows + scores + 2 * kHeads * 4 + 32 * 4;
}

void run_forward(const Problem& problem, const HostTensors& tensors, const DeviceProperties& device,
                 const ForwardBuffers& buffers, cuda::Stream stream) {
  const int head_blocks = (problem.heads_per_group() + kHeads - 1) / kHeads;
  const std::int64_t ctas = tensors.batch * tensors.queries * problem.kv_groups * head_blocks;
  if (ctas == 0) return;
  if (ctas > 2147483647) {
    fail(Status::not_supported, "the forward of {} tokens needs {} CTAs, more than 2147483647",
         tensors.batch * tensors.queries, ctas);
  }
  const KernelSource source = forward_source(problem);
  const Cubin cubin = compile(source, arch_of_device(device.compute_major, device.compute_minor));
  const LoadedLibrary library(cubin.image, source.name);
  const cuda::Kernel kernel = library.kernel(kSymbol);
  make_ready(kernel, kSymbol, forward_shared_bytes(problem), device.handle);

  const ForwardArguments arguments = {buffers.q,
                                      buffers.kv,
                                      buffers.indices,
                                      buffers.topk_length,
                                      buffers.attn_sink,
                                      buffers.o,
                                      buffers.lse,
                                      tensors.query_offset,
                                      static_cast<int>(tensors.queries),
                                      static_cast<int>(tensors.keys),
                                      static_cast<int>(tensors.topk),
                                      tensors.length_per_group ? 1 : 0,
                                      tensors.scale};
  launch({kernel}, kSymbol, static_cast<unsigned>(ctas), kThreads,
         static_cast<unsigned>(forward_shared_bytes(problem)), stream, &arguments);
  synchronize(stream);  // the library is unloaded on return
}

}  // namespace smla::core
