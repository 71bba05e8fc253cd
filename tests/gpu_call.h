// Cases on a GPU: every tensor in a device buffer of exactly its size, outputs and workspace poisoned with
// NaN bits.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/arch.h"
#include "contract_case.h"
#include "driver/device.h"
#include "driver/driver.h"
#include "driver/memory.h"
#include "driver/stream.h"
#include "plan/plan.h"
#include "plan/prepare.h"
#include "plan/prepare_together.h"

namespace smla_test {

struct Gpu {
  DeviceProperties properties;
  Arch arch;
  CurrentDevice current;  // for the buffers of this thread

  Gpu()
      : properties(device_properties(0)),
        arch(arch_of_device(properties.compute_major, properties.compute_minor)),
        current(properties.handle) {}
};

// The first GPU; skips the test where there is none. Kernels that tests compile are kept in the build tree
// unless SMLA_CACHE_DIR says otherwise.
inline const Gpu& require_gpu() {
  std::string why;
  if (!driver_available(&why)) SKIP("no GPU");
  static const Gpu* const gpu = [] {
    ::setenv("SMLA_CACHE_DIR", SMLA_BINARY_DIR "/test-cache", 0);
    return new Gpu;  // lives as long as the process: its context holds buffers until the very end
  }();
  return *gpu;
}

struct GpuTensor {
  Box box;
  DeviceBuffer buffer;

  explicit GpuTensor(const Box& b) : box(b), buffer(static_cast<std::size_t>(b.bytes())) { poison(); }
  void poison() { fill(buffer.data(), 0xff, buffer.bytes()); }
  Tensor view() const {
    if (buffer.bytes() == 0) return {nullptr, box.strides()};
    return {static_cast<char*>(buffer.data()) + box.placement.before * box.element_bytes, box.strides()};
  }
};

template <class T>
void upload(GpuTensor& tensor, const std::vector<T>& values) {
  const std::vector<unsigned char> bytes = placed(tensor.box, values);
  copy_to_device(tensor.buffer.data(), bytes.data(), bytes.size());
}

template <class T>
std::vector<T> download(const GpuTensor& tensor, bool* intact) {
  std::vector<unsigned char> bytes(tensor.buffer.bytes());
  copy_to_host(bytes.data(), tensor.buffer.data(), bytes.size());
  return taken<T>(tensor.box, std::move(bytes), intact);
}

// A case with all it needs on the device, ready to be run any number of times.
struct GpuCase {
  std::shared_ptr<const Plan> plan;
  GpuTensor q, kv, o, d_o, indices, topk_length, lse, attn_sink, delta;
  GpuTensor d_q, d_kv, d_sink;
  DeviceBuffer workspace;
  Call call;
};

inline void poison_outputs(GpuCase& g) {
  for (GpuTensor* tensor : {&g.d_q, &g.d_kv, &g.d_sink}) tensor->poison();
  fill(g.workspace.data(), 0xff, g.workspace.bytes());
}

inline void upload_inputs(GpuCase& g, const HostTensors& t) {
  upload(g.q, t.q);
  upload(g.kv, t.kv);
  upload(g.o, t.o);
  upload(g.d_o, t.d_o);
  upload(g.indices, t.indices);
  upload(g.topk_length, t.topk_length);
  upload(g.lse, t.lse);
  upload(g.attn_sink, t.attn_sink);
  upload(g.delta, t.delta);
}

// Buffers on the current device and a call of a plan of `device`; inputs are still NaN.
inline GpuCase allocate(const Case& c, int device = 0) {
  const Problem& p = c.problem;
  const HostTensors& t = c.tensors;
  const Boxes x = boxes_of(p, t, c.layout);
  GpuCase g{.plan = create_plan(p, c.request, device),
            .q = GpuTensor(x.q),
            .kv = GpuTensor(x.kv),
            .o = GpuTensor(x.o),
            .d_o = GpuTensor(x.d_o),
            .indices = GpuTensor(x.indices),
            .topk_length = GpuTensor(x.topk_length),
            .lse = GpuTensor(x.lse),
            .attn_sink = GpuTensor(x.attn_sink),
            .delta = GpuTensor(x.delta),
            .d_q = GpuTensor(x.d_q),
            .d_kv = GpuTensor(x.d_kv),
            .d_sink = GpuTensor(x.d_sink),
            .workspace = {},
            .call = {}};

  Call& call = g.call;
  call.lengths = {.batch = t.batch, .queries = t.queries, .keys = t.keys, .topk = t.topk};
  call.order = c.order;
  call.q = g.q.view();
  call.kv = g.kv.view();
  call.o = g.o.view();
  call.d_o = g.d_o.view();
  call.indices = g.indices.view();
  call.topk_length = g.topk_length.view();
  if (!t.length_per_group) call.topk_length.strides[2] = 0;
  call.lse = g.lse.view();
  call.delta = g.delta.view();
  call.attn_sink = g.attn_sink.buffer.data();
  call.d_q = g.d_q.view();
  call.d_kv = g.d_kv.view();
  call.d_sink = g.d_sink.buffer.data();
  call.scale = t.scale;
  call.query_offset = t.query_offset;
  g.workspace = DeviceBuffer(static_cast<std::size_t>(workspace_size(*g.plan, call.lengths, c.order)));
  call.workspace = g.workspace.data();
  call.workspace_bytes = g.workspace.bytes();
  poison_outputs(g);
  return g;
}

inline Outputs download(const GpuCase& g) {
  Outputs outputs;
  bool* intact = &outputs.surroundings_intact;
  outputs.d_q = download<std::uint16_t>(g.d_q, intact);
  if (g.d_kv.box.element_bytes == 2) {
    outputs.d_kv = download<std::uint16_t>(g.d_kv, intact);
  } else {
    outputs.d_kv_fp32 = download<float>(g.d_kv, intact);
  }
  outputs.d_sink = download<float>(g.d_sink, intact);
  return outputs;
}

inline Outputs run_on_gpu(const Case& c) {
  GpuCase g = allocate(c);
  upload_inputs(g, c.tensors);
  run(*g.plan, g.call);
  synchronize(g.call.stream);
  return download(g);
}

// A case whose o and lse no forward made: for what does not look at their values, at lengths where the
// reference's forward would take long. lse is that of `keys` equal logits.
inline Case unforwarded_case(const Problem& problem, InputOptions options, std::uint64_t seed) {
  options.with_forward = false;
  Case c{.problem = problem, .tensors = make_inputs(problem, options, seed)};
  c.tensors.o = c.tensors.d_o;
  const auto rows = static_cast<std::size_t>(options.batch * options.queries * problem.heads);
  c.tensors.lse.assign(rows, std::log2(static_cast<float>(options.topk)) + 1);
  return c;
}

inline char* bytes_of(const DeviceBuffer& buffer) {
  return static_cast<char*>(buffer.data());
}

// A way to run a case: which schedule, of how many heads a kv group, in which order of the lists.
struct Setting {
  Schedule schedule;
  int heads_per_group;
  OrderRequest order;
};

inline std::string describe(const Setting& s) {
  return fmt::format("{}, {} heads a group, order {}", name(s.schedule), s.heads_per_group,
                     static_cast<int>(s.order));
}

// All settings that the GPU can run.
inline std::vector<Setting> settings(const Gpu& gpu) {
  std::vector<Setting> all = {{Schedule::cp_async, 1, OrderRequest::automatic},
                              {Schedule::cp_async, 24, OrderRequest::automatic},
                              {Schedule::cp_async, 64, OrderRequest::automatic}};
  if (has_wgmma(gpu.arch)) {
    all.push_back({Schedule::wgmma, 64, OrderRequest::callers});
    all.push_back({Schedule::wgmma, 64, OrderRequest::sorted});
    all.push_back({Schedule::wgmma, 64, OrderRequest::sorted_throttled});
    all.push_back({Schedule::wgmma, 5, OrderRequest::callers});  // 8 tokens a CTA
    all.push_back({Schedule::wgmma, 16, OrderRequest::sorted});
    all.push_back({Schedule::wgmma, 40, OrderRequest::callers});
    all.push_back({Schedule::wgmma_pair, 128, OrderRequest::callers});
    all.push_back({Schedule::wgmma_pair, 128, OrderRequest::sorted});
    all.push_back({Schedule::wgmma_pair, 96, OrderRequest::sorted_throttled});
  }
  return all;
}

// The setting's; what a pair cannot compute (fp16, other sums than fp32) is wgmma's in the same blocks.
inline Schedule schedule_for(const Problem& p, const Setting& setting) {
  const bool fits_a_pair = p.dtype == DType::bf16 && p.accumulate == Accumulate::fp32 && !p.deterministic;
  return setting.schedule == Schedule::wgmma_pair && !fits_a_pair ? Schedule::wgmma : setting.schedule;
}

inline Case with_setting(Case c, const Setting& setting) {
  c.request.schedule = schedule_for(c.problem, setting);
  c.order = setting.order;
  return c;
}

// The problems that a body runs, found by running it on the reference.
inline std::vector<Problem> problems_of(CaseBody body) {
  std::vector<Problem> problems;
  body(
      [&](const Case& c) {
        if (std::find(problems.begin(), problems.end(), c.problem) == problems.end())
          problems.push_back(c.problem);
        return rounded(c.problem, backward(c.problem, c.tensors));
      },
      1);
  return problems;
}

// How the sums of d_kv of a body's problems are asked for: as they stand, deterministic, or partial.
using Sums = Problem (*)(Problem);
inline Problem usual(Problem problem) {
  return problem;
}

inline void compile_bodies_together(const Gpu& gpu, const std::vector<CaseBody>& bodies,
                                    const std::vector<Setting>& in_settings, Sums sums) {
  std::vector<std::pair<Problem, ConfigRequest>> wanted;
  const auto want = [&](const Problem& problem, const Setting& setting) {
    const std::pair<Problem, ConfigRequest> one = {problem, {.schedule = schedule_for(problem, setting)}};
    if (std::find(wanted.begin(), wanted.end(), one) == wanted.end()) wanted.push_back(one);
  };
  for (const CaseBody body : bodies) {
    for (Problem problem : problems_of(body)) {
      for (const Setting& setting : in_settings) {
        problem.heads = setting.heads_per_group * problem.kv_groups;
        want(sums(problem), setting);
        if (sums(problem).accumulate == Accumulate::partial) want(with_fp32_sums(problem), setting);
      }
    }
  }
  prepare_together(wanted, gpu.arch);
}

// Runs a body in some settings.
inline void on_gpu(CaseBody body, const std::vector<Setting>& in_settings, Sums sums) {
  for (const Setting& setting : in_settings) {
    INFO(describe(setting));
    body(
        [&](Case c) {
          c.problem = sums(c.problem);
          return run_on_gpu(with_setting(c, setting));
        },
        setting.heads_per_group);
  }
}

}  // namespace smla_test
