#include "plan/call.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "plan/workspace.h"

namespace smla::core {
namespace {

constexpr std::array<std::string_view, 3> kDimensions = {"batch", "token", "head"};
constexpr std::int64_t kVectorBytes = 16;  // cp.async and vector accesses of the kernels

// The schedules of wgmma multiply a kv row by the token stride in bytes, which it keeps in 32 bits. 16-bit
// elements, and a stride is a multiple of 8 of them.
constexpr std::int64_t kLargestKvStride = std::numeric_limits<std::int32_t>::max() / 2 / 8 * 8;

// One tensor of a call with what it has to satisfy.
struct Operand {
  std::string_view name;
  Tensor tensor;
  std::array<std::int64_t, 3> extents;  // batch, token, head
  std::int64_t columns;
  std::int64_t element_bytes;
  bool vectors;  // accessed by 16 bytes: pointer and strides have to be multiples
  bool output;
  bool present;           // the problem has it
  bool optional = false;  // may be null although present

  bool empty() const { return columns == 0 || std::find(extents.begin(), extents.end(), 0) != extents.end(); }
};

constexpr std::size_t kOperands = 12;

std::array<Operand, kOperands> operands(const Call& c, const Problem& p) {
  const std::int64_t b = c.lengths.batch, s = c.lengths.queries, keys = c.lengths.keys;
  const std::array<std::int64_t, 3> by_head = {b, s, p.heads};
  const std::array<std::int64_t, 3> by_group = {b, s, p.kv_groups};
  const std::array<std::int64_t, 3> rows = {b, keys, p.kv_groups};
  const std::array<std::int64_t, 3> vector = {1, 1, 1};
  const std::int64_t d_kv_bytes = p.d_kv_type == DkvType::fp32 ? 4 : 2;
  const Tensor sink = {const_cast<void*>(c.attn_sink), {}};
  const Tensor d_sink = {c.d_sink, {}};
  return {{
      // name, tensor, extents, columns, bytes, vectors, output, present
      {"q", c.q, by_head, p.d_qk(), 2, true, false, true},
      {"kv", c.kv, rows, p.d_qk(), 2, true, false, true},
      {"o", c.o, by_head, p.d_v, 2, true, false, true, p.has_delta},
      {"d_o", c.d_o, by_head, p.d_v, 2, true, false, true},
      {"indices", c.indices, by_group, c.lengths.topk, 4, false, false, true},
      {"topk_length", c.topk_length, by_group, 1, 4, false, false, p.has_topk_length},
      {"lse", c.lse, by_head, 1, 4, false, false, true},
      {"delta", c.delta, by_head, 1, 4, false, false, p.has_delta},
      {"attn_sink", sink, vector, p.heads, 4, false, false, p.has_sink},
      {"d_q", c.d_q, by_head, p.d_qk(), 2, true, true, true},
      {"d_kv", c.d_kv, rows, p.d_qk(), d_kv_bytes, true, true, true},
      {"d_sink", d_sink, vector, p.heads, 4, false, true, p.has_sink},
  }};
}

std::uintptr_t address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

void check_pointer(const Operand& x) {
  if (x.tensor.data == nullptr) {
    if (x.empty() || x.optional) return;
    fail(Status::invalid_argument, "{} is null, and its shape is [{}, {}, {}, {}] (call.{}.data)", x.name,
         x.extents[0], x.extents[1], x.extents[2], x.columns, x.name);
  }
  const std::int64_t alignment = x.vectors ? kVectorBytes : x.element_bytes;
  if (address(x.tensor.data) % static_cast<std::uintptr_t>(alignment) != 0) {
    fail(Status::invalid_argument, "{} = {} is not a multiple of {} bytes (call.{}.data)", x.name,
         x.tensor.data, alignment, x.name);
  }
}

void check_strides(const Operand& x) {
  const std::int64_t multiple = x.vectors ? kVectorBytes / x.element_bytes : 1;
  std::int64_t last = x.columns;  // elements from the first to behind the last one
  for (std::size_t d = 0; d < 3; ++d) {
    if (x.extents[d] <= 1) continue;
    const std::int64_t stride = x.tensor.strides[d];
    if (stride < 0) {
      fail(Status::invalid_argument, "{}'s {} stride = {} is negative (call.{}.strides[{}])", x.name,
           kDimensions[d], stride, x.name, d);
    }
    if (stride % multiple != 0) {
      fail(Status::invalid_argument,
           "{}'s {} stride = {} elements is not a multiple of {} (16 bytes) (call.{}.strides[{}])", x.name,
           kDimensions[d], stride, multiple, x.name, d);
    }
    std::int64_t span = 0;
    if (__builtin_mul_overflow(stride, x.extents[d] - 1, &span) ||
        __builtin_add_overflow(last, span, &last) || last > std::numeric_limits<std::int64_t>::max() / 8) {
      fail(Status::invalid_argument,
           "{}'s {} stride = {} over {} elements leaves the 64-bit address space "
           "(call.{}.strides[{}])",
           x.name, kDimensions[d], stride, x.extents[d], x.name, d);
    }
  }
}

// Rows of an output must be apart: from the smallest stride up, each has to step over all that the ones below
// span.
void check_apart(const Operand& x) {
  std::array<std::size_t, 3> by_stride = {0, 1, 2};
  std::sort(by_stride.begin(), by_stride.end(),
            [&](std::size_t a, std::size_t b) { return x.tensor.strides[a] < x.tensor.strides[b]; });
  std::int64_t span = x.columns;
  for (const std::size_t d : by_stride) {
    if (x.extents[d] <= 1) continue;
    const std::int64_t stride = x.tensor.strides[d];
    if (stride < span) {
      fail(Status::invalid_argument,
           "{} overlaps itself: its {} stride = {} is less than the {} elements below it, and it is written "
           "(call.{}.strides[{}])",
           x.name, kDimensions[d], stride, span, x.name, d);
    }
    span += stride * (x.extents[d] - 1);
  }
}

void check_tensor(const Operand& x) {
  if (!x.present) {
    if (x.tensor.data == nullptr) return;
    fail(Status::invalid_argument, "{} = {} is given, and the plan's problem has none (call.{}.data)", x.name,
         x.tensor.data, x.name);
  }
  check_pointer(x);
  if (x.empty() || x.tensor.data == nullptr) return;
  check_strides(x);
  if (x.output) check_apart(x);
}

void check_distinct(const std::array<Operand, kOperands>& all) {
  for (const Operand& output : all) {
    if (!output.output || output.tensor.data == nullptr || output.empty()) continue;
    for (const Operand& other : all) {
      if (&other == &output || other.tensor.data != output.tensor.data || other.empty()) continue;
      fail(Status::invalid_argument, "{} and {} are both at {}, and {} is written (call.{}.data)",
           output.name, other.name, output.tensor.data, output.name, output.name);
    }
  }
}

bool contains(const void* begin, std::size_t bytes, const void* pointer) {
  return address(pointer) >= address(begin) && address(pointer) - address(begin) < bytes;
}

void check_outside(const Operand& x, std::string_view what, const void* begin, std::size_t bytes) {
  if (x.tensor.data == nullptr || x.empty() || !contains(begin, bytes, x.tensor.data)) return;
  fail(Status::invalid_argument, "{} = {} lies in {} at {} (call.{}.data)", x.name, x.tensor.data, what,
       begin, x.name);
}

void check_kv_stride(const Call& call, const Config& config) {
  const std::int64_t stride = call.kv.strides[1];
  if (!uses_wgmma(config.schedule) || call.lengths.keys <= 1 || stride <= kLargestKvStride) return;
  fail(Status::not_supported,
       "kv's token stride = {} elements (call.kv.strides[1]): the schedule {} reaches {} at most; the "
       "schedule cp_async takes more",
       stride, name(config.schedule), kLargestKvStride);
}

}  // namespace

void set_contiguous_strides(Call& c, const Problem& p) {
  // Lengths are judged later: what 64 bits cannot hold saturates.
  const auto product = [](std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
  };
  const auto contiguous = [&](std::int64_t tokens, std::int64_t heads, std::int64_t columns) {
    const std::int64_t token = product(heads, columns);
    return std::array<std::int64_t, 3>{product(tokens, token), token, columns};
  };
  const std::int64_t s = c.lengths.queries, keys = c.lengths.keys;
  c.q.strides = c.d_q.strides = contiguous(s, p.heads, p.d_qk());
  c.kv.strides = c.d_kv.strides = contiguous(keys, p.kv_groups, p.d_qk());
  c.o.strides = c.d_o.strides = contiguous(s, p.heads, p.d_v);
  c.indices.strides = contiguous(s, p.kv_groups, c.lengths.topk);
  c.topk_length.strides = contiguous(s, p.kv_groups, 1);
  c.lse.strides = c.delta.strides = contiguous(s, p.heads, 1);
}

float default_scale(const Problem& problem) {
  return 1.0F / std::sqrt(static_cast<float>(problem.d_qk()));
}

void validate(const Call& call, const Problem& problem, const Config& config) {
  const std::array<Operand, kOperands> all = operands(call, problem);
  for (const Operand& x : all) check_tensor(x);
  check_kv_stride(call, config);
  check_distinct(all);
  for (const Operand& x : all) check_outside(x, "the workspace", call.workspace, call.workspace_bytes);
  if (!std::isfinite(call.scale)) {
    fail(Status::invalid_argument,
         "scale = {} is not finite (call.scale); the usual one is {} for {} columns", call.scale,
         default_scale(problem), problem.d_qk());
  }
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  if (call.query_offset < -limit || call.query_offset > limit) {
    fail(Status::invalid_argument, "query_offset = {} is outside +-{} (call.query_offset)", call.query_offset,
         limit);
  }
}

void validate_workspace(const Call& call, std::int64_t needed) {
  if (call.workspace == nullptr) {
    fail(Status::invalid_argument, "workspace is null, and this call needs {} bytes (call.workspace)",
         needed);
  }
  if (address(call.workspace) % static_cast<std::uintptr_t>(kWorkspaceAlignment) != 0) {
    fail(Status::invalid_argument, "workspace = {} is not a multiple of {} bytes (call.workspace)",
         call.workspace, kWorkspaceAlignment);
  }
  if (call.workspace_bytes < static_cast<std::size_t>(needed)) {
    fail(Status::invalid_argument,
         "workspace_bytes = {} is less than the {} bytes that this call needs "
         "(call.workspace_bytes)",
         call.workspace_bytes, needed);
  }
}

void validate_lists(const Call& call, const Problem& problem, std::int64_t needed) {
  if (needed == 0) return;
  if (call.lists == nullptr) {
    if (!call.lists_are_ready) return;
    fail(Status::invalid_argument,
         "lists_are_ready = 1 and lists is null: there is nothing that an earlier call wrote (call.lists)");
  }
  const auto bytes = static_cast<std::size_t>(needed);
  if (address(call.lists) % static_cast<std::uintptr_t>(kWorkspaceAlignment) != 0) {
    fail(Status::invalid_argument, "lists = {} is not a multiple of {} bytes (call.lists)", call.lists,
         kWorkspaceAlignment);
  }
  if (call.lists_bytes < bytes) {
    fail(Status::invalid_argument,
         "lists_bytes = {} is less than the {} bytes that this call's lists take (call.lists_bytes)",
         call.lists_bytes, needed);
  }
  if (contains(call.lists, bytes, call.workspace) ||
      contains(call.workspace, call.workspace_bytes, call.lists)) {
    fail(Status::invalid_argument, "lists = {} overlap the workspace at {} (call.lists)", call.lists,
         call.workspace);
  }
  for (const Operand& x : operands(call, problem)) check_outside(x, "the lists", call.lists, bytes);
}

}  // namespace smla::core
