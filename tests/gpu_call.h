// Cases on a GPU: every tensor in a device buffer of exactly its size, outputs and workspace poisoned with
// NaN bits.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
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

// [batch, token, head] rows of `columns` elements as they lie in a buffer.
struct Box {
  std::array<std::int64_t, 3> lengths;
  std::int64_t columns;
  std::int64_t element_bytes;
  Placement placement;

  std::array<std::int64_t, 3> strides() const {
    if (placement.strides) return *placement.strides;
    return {lengths[1] * lengths[2] * columns, lengths[2] * columns, columns};
  }
  std::int64_t rows() const { return lengths[0] * lengths[1] * lengths[2]; }
  std::int64_t row_bytes() const { return columns * element_bytes; }
  // Byte offset of a row, counted in contiguous order.
  std::int64_t offset(std::int64_t row) const {
    const auto s = strides();
    const std::int64_t head = row % lengths[2];
    const std::int64_t token = row / lengths[2] % lengths[1];
    const std::int64_t batch = row / lengths[2] / lengths[1];
    return (placement.before + batch * s[0] + token * s[1] + head * s[2]) * element_bytes;
  }
  std::int64_t bytes() const {
    if (rows() == 0) return 0;
    return offset(rows() - 1) + row_bytes() + placement.behind * element_bytes;
  }
};

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
  const Box& box = tensor.box;
  std::vector<unsigned char> bytes(tensor.buffer.bytes(), 0xff);
  const auto row_bytes = static_cast<std::size_t>(box.row_bytes());
  for (std::int64_t row = 0; row < box.rows() && row_bytes > 0; ++row) {
    std::memcpy(bytes.data() + box.offset(row), values.data() + row * box.columns, row_bytes);
  }
  copy_to_device(tensor.buffer.data(), bytes.data(), bytes.size());
}

// The rows in contiguous order; *intact becomes false when a byte outside them is no longer 0xff.
template <class T>
std::vector<T> download(const GpuTensor& tensor, bool* intact) {
  const Box& box = tensor.box;
  std::vector<unsigned char> bytes(tensor.buffer.bytes());
  copy_to_host(bytes.data(), tensor.buffer.data(), bytes.size());
  std::vector<T> values(static_cast<std::size_t>(box.rows() * box.columns));
  const auto row_bytes = static_cast<std::size_t>(box.row_bytes());
  for (std::int64_t row = 0; row < box.rows(); ++row) {
    unsigned char* at = bytes.data() + box.offset(row);
    std::memcpy(values.data() + row * box.columns, at, row_bytes);
    std::memset(at, 0xff, row_bytes);
  }
  *intact =
      *intact && std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0xff; });
  return values;
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

// Buffers and call of a case; inputs are still NaN.
inline GpuCase allocate(const Case& c) {
  const Problem& p = c.problem;
  const HostTensors& t = c.tensors;
  const std::array<std::int64_t, 3> query_heads = {t.batch, t.queries, p.heads};
  const std::array<std::int64_t, 3> query_groups = {t.batch, t.queries, p.kv_groups};
  const std::array<std::int64_t, 3> key_groups = {t.batch, t.keys, p.kv_groups};
  const std::int64_t length_tokens = p.has_topk_length ? t.queries : 0;
  const Box lengths = {
      {t.batch, length_tokens, t.length_per_group ? p.kv_groups : 1}, 1, 4, c.layout.topk_length};
  const Box delta = {{t.batch, p.has_delta ? t.queries : 0, p.heads}, 1, 4, c.layout.delta};
  const Box per_head = {{1, 1, p.has_sink ? p.heads : 0}, 1, 4, {}};
  const std::int64_t d_kv_bytes = p.d_kv_type == DkvType::fp32 ? 4 : 2;
  GpuCase g{.plan = create_plan(p, c.request, require_gpu().properties.ordinal),
            .q = GpuTensor({query_heads, p.d_qk(), 2, c.layout.q}),
            .kv = GpuTensor({key_groups, p.d_qk(), 2, c.layout.kv}),
            .o = GpuTensor({query_heads, p.d_v, 2, c.layout.o}),
            .d_o = GpuTensor({query_heads, p.d_v, 2, c.layout.d_o}),
            .indices = GpuTensor({query_groups, t.topk, 4, c.layout.indices}),
            .topk_length = GpuTensor(lengths),
            .lse = GpuTensor({query_heads, 1, 4, c.layout.lse}),
            .attn_sink = GpuTensor(per_head),
            .delta = GpuTensor(delta),
            .d_q = GpuTensor({query_heads, p.d_qk(), 2, c.layout.d_q}),
            .d_kv = GpuTensor({key_groups, p.d_qk(), d_kv_bytes, c.layout.d_kv}),
            .d_sink = GpuTensor(per_head),
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
  }
  return all;
}

inline Case with_setting(Case c, const Setting& setting) {
  c.request.schedule = setting.schedule;
  c.order = setting.order;
  return c;
}

// Compiles what is not on disk yet in one process a core, since a compilation uses a single one. What fails
// here fails again, with its reason, in the test that needs it.
inline void compile_together(const Arch& arch, const std::vector<std::pair<Problem, ConfigRequest>>& wanted) {
  const std::size_t processes =
      std::min<std::size_t>(wanted.size(), std::max(1u, std::thread::hardware_concurrency()));
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    for (std::size_t w = i; w < wanted.size(); w += processes) {
      try {
        const auto& [problem, request] = wanted[w];
        prepare(problem, choose_config(problem, arch, request).config, arch);
      } catch (const std::exception&) {
        continue;
      }
    }
    ::_exit(0);
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
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

inline void compile_bodies_together(const Gpu& gpu, const std::vector<CaseBody>& bodies) {
  std::vector<std::pair<Problem, ConfigRequest>> wanted;
  for (const CaseBody body : bodies) {
    for (Problem problem : problems_of(body)) {
      for (const Setting& setting : settings(gpu)) {
        problem.heads = setting.heads_per_group * problem.kv_groups;
        const std::pair<Problem, ConfigRequest> pair = {problem, {.schedule = setting.schedule}};
        if (std::find(wanted.begin(), wanted.end(), pair) == wanted.end()) wanted.push_back(pair);
      }
    }
  }
  compile_together(gpu.arch, wanted);
}

// Runs a body in every setting.
inline void on_gpu(CaseBody body) {
  for (const Setting& setting : settings(require_gpu())) {
    INFO(describe(setting));
    body([&](const Case& c) { return run_on_gpu(with_setting(c, setting)); }, setting.heads_per_group);
  }
}

}  // namespace smla_test
