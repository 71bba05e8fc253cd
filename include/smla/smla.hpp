// smla for C++20: values and one RAII handle over smla.h. Header-only, no CUDA header.
//
//   const smla::Problem problem = {.heads = 64, .causal = true};
//   const smla::Plan plan(problem);
//   smla::Call call = smla::contiguous_call(problem, {.batch = 1, .queries = S, .keys = S_kv, .topk = topk});
//   call.scale = smla::default_scale(problem);
//   call.q.data = q; ...
//   call.workspace = allocate(call.workspace_bytes = plan.workspace_size(call.lengths));
//   plan.run(call);
//
// Shapes, units and defaults are those of smla.h. Every failure is a smla::Error.
#pragma once

#include <smla/smla.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace smla {

enum class Status {
  success = SMLA_SUCCESS,
  invalid_argument = SMLA_INVALID_ARGUMENT,
  not_supported = SMLA_NOT_SUPPORTED,
  no_driver = SMLA_NO_DRIVER,
  no_compiler = SMLA_NO_COMPILER,
  compile_failed = SMLA_COMPILE_FAILED,
  not_cached = SMLA_NOT_CACHED,
  cuda_error = SMLA_CUDA_ERROR,
  capturing = SMLA_CAPTURING,
  internal_error = SMLA_INTERNAL_ERROR,
};

// what() is the sentence of smla_last_error().
class Error : public std::runtime_error {
 public:
  Error(Status status, const char* sentence) : std::runtime_error(sentence), status_(status) {}
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

enum class DType { bf16 = SMLA_BF16, fp16 = SMLA_FP16 };
enum class LseBase { two = SMLA_LSE_BASE_2, e = SMLA_LSE_BASE_E };
enum class DkvType { operand = SMLA_D_KV_OPERAND, fp32 = SMLA_D_KV_FP32 };
enum class Accumulate { fp32 = SMLA_ACCUMULATE_FP32, partial = SMLA_ACCUMULATE_PARTIAL };
enum class Schedule {
  automatic = SMLA_SCHEDULE_AUTO,
  cp_async = SMLA_SCHEDULE_CP_ASYNC,
  wgmma = SMLA_SCHEDULE_WGMMA,
  wgmma_pair = SMLA_SCHEDULE_WGMMA_PAIR,
};
enum class Order {
  automatic = SMLA_ORDER_AUTO,
  callers = SMLA_ORDER_CALLERS,
  sorted = SMLA_ORDER_SORTED,
  sorted_throttled = SMLA_ORDER_SORTED_THROTTLED,
};

struct Problem {
  int heads = 0;  // has to be set
  int kv_groups = 1;
  int d_v = 512;
  int d_tail = 64;
  DType dtype = DType::bf16;
  bool causal = false;
  bool has_sink = false;
  bool has_topk_length = false;
  bool has_delta = false;
  LseBase lse_base = LseBase::two;
  bool lse_includes_sink = false;
  DkvType d_kv_type = DkvType::operand;
  Accumulate accumulate = Accumulate::fp32;
  bool deterministic = false;

  bool operator==(const Problem&) const = default;
};

// 0 and automatic: smla chooses.
struct Config {
  Schedule schedule = Schedule::automatic;
  int block_h = 0;
  int block_size = 0;
  int stages = 0;
  int threads = 0;

  bool operator==(const Config&) const = default;
};

struct Lengths {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t topk = 0;
  Order order = Order::automatic;

  bool operator==(const Lengths&) const = default;
};

// Strides of batch, token and head, in elements; the columns are contiguous.
using Strides = std::array<std::int64_t, 3>;

struct Input {
  const void* data = nullptr;
  Strides strides = {};
};

struct Output {
  void* data = nullptr;
  Strides strides = {};
};

struct Call {
  Lengths lengths;
  Input q, kv, o, d_o, indices, topk_length, lse, delta;
  const void* attn_sink = nullptr;
  Output d_q, d_kv;
  void* d_sink = nullptr;
  float scale = std::numeric_limits<float>::quiet_NaN();  // refused: has to be set
  std::int64_t query_offset = 0;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* stream = nullptr;  // a CUstream or cudaStream_t
  void* lists = nullptr;   // device memory of Plan::lists_size bytes; null: lists are in the workspace
  std::size_t lists_bytes = 0;
  bool lists_are_ready = false;  // an earlier call over the same lists wrote them; not checked (smla.h)
};

namespace detail {

inline void check(smla_status status) {
  if (status != SMLA_SUCCESS) throw Error(static_cast<Status>(status), smla_last_error());
}

inline smla_problem to_c(const Problem& p) {
  smla_problem c;
  smla_problem_init(&c);
  c.heads = p.heads;
  c.kv_groups = p.kv_groups;
  c.d_v = p.d_v;
  c.d_tail = p.d_tail;
  c.dtype = static_cast<std::int32_t>(p.dtype);
  c.causal = p.causal;
  c.has_sink = p.has_sink;
  c.has_topk_length = p.has_topk_length;
  c.has_delta = p.has_delta;
  c.lse_base = static_cast<std::int32_t>(p.lse_base);
  c.lse_includes_sink = p.lse_includes_sink;
  c.d_kv_type = static_cast<std::int32_t>(p.d_kv_type);
  c.accumulate = static_cast<std::int32_t>(p.accumulate);
  c.deterministic = p.deterministic;
  return c;
}

inline smla_config to_c(const Config& config) {
  smla_config c;
  smla_config_init(&c);
  c.schedule = static_cast<std::int32_t>(config.schedule);
  c.block_h = config.block_h;
  c.block_size = config.block_size;
  c.stages = config.stages;
  c.threads = config.threads;
  return c;
}

inline smla_lengths to_c(const Lengths& n) {
  return {n.batch, n.queries, n.keys, n.topk, static_cast<std::int32_t>(n.order), {0, 0, 0}};
}

inline smla_tensor to_c(const Input& t) {
  return {const_cast<void*>(t.data), {t.strides[0], t.strides[1], t.strides[2]}};
}

inline smla_tensor to_c(const Output& t) {
  return {t.data, {t.strides[0], t.strides[1], t.strides[2]}};
}

inline Strides strides(const smla_tensor& t) {
  return {t.strides[0], t.strides[1], t.strides[2]};
}

inline smla_call to_c(const Call& call) {
  smla_call c = {};
  c.struct_size = sizeof c;
  c.lengths = to_c(call.lengths);
  c.q = to_c(call.q);
  c.kv = to_c(call.kv);
  c.o = to_c(call.o);
  c.d_o = to_c(call.d_o);
  c.indices = to_c(call.indices);
  c.topk_length = to_c(call.topk_length);
  c.lse = to_c(call.lse);
  c.delta = to_c(call.delta);
  c.attn_sink = call.attn_sink;
  c.d_q = to_c(call.d_q);
  c.d_kv = to_c(call.d_kv);
  c.d_sink = call.d_sink;
  c.scale = call.scale;
  c.query_offset = call.query_offset;
  c.workspace = call.workspace;
  c.workspace_bytes = call.workspace_bytes;
  c.stream = call.stream;
  c.lists = call.lists;
  c.lists_bytes = call.lists_bytes;
  c.lists_are_ready = call.lists_are_ready;
  return c;
}

}  // namespace detail

inline std::string version() {
  return smla_version();
}

inline float default_scale(const Problem& problem) {
  const smla_problem c = detail::to_c(problem);
  const float scale = smla_default_scale(&c);
  if (scale == 0) throw Error(Status::invalid_argument, smla_last_error());
  return scale;
}

// A call whose tensors have the strides of contiguous ones; pointers and the scale are the caller's to set.
inline Call contiguous_call(const Problem& problem, const Lengths& lengths) {
  const smla_problem p = detail::to_c(problem);
  smla_call c;
  detail::check(smla_call_init(&c, &p, lengths.batch, lengths.queries, lengths.keys, lengths.topk));
  Call call;
  call.lengths = lengths;
  call.q.strides = detail::strides(c.q);
  call.kv.strides = detail::strides(c.kv);
  call.o.strides = detail::strides(c.o);
  call.d_o.strides = detail::strides(c.d_o);
  call.indices.strides = detail::strides(c.indices);
  call.topk_length.strides = detail::strides(c.topk_length);
  call.lse.strides = detail::strides(c.lse);
  call.delta.strides = detail::strides(c.delta);
  call.d_q.strides = detail::strides(c.d_q);
  call.d_kv.strides = detail::strides(c.d_kv);
  call.scale = c.scale;
  return call;
}

struct Support {
  bool supported = false;
  std::string
      why;  // what would be chosen, a sentence a line; or why it cannot be run, and the nearest that works
  explicit operator bool() const noexcept { return supported; }
};

// Needs neither GPU nor compiler. Throws nothing of its own: an arch that smla does not know is a reason too.
inline Support supported(const Problem& problem, const std::string& arch, const Config& config = {}) {
  const smla_problem p = detail::to_c(problem);
  const smla_config c = detail::to_c(config);
  std::string why(4096, '\0');
  const smla_status status = smla_supported(&p, &c, arch.c_str(), why.data(), why.size());
  why.resize(why.find('\0'));
  return {status == SMLA_SUCCESS, std::move(why)};
}

// Compiles into the cache or finds it there; true when it was compiled now. Needs no GPU.
inline bool prepare(const Problem& problem, const std::string& arch, const Config& config = {}) {
  const smla_problem p = detail::to_c(problem);
  const smla_config c = detail::to_c(config);
  int built = 0;
  detail::check(smla_prepare(&p, &c, arch.c_str(), &built));
  return built == 1;
}

// A problem made ready on one device. Movable; any number of threads may use one.
class Plan {
 public:
  // device: -1 for the thread's current one. stream: looked at alone, to refuse a cold plan under capture.
  explicit Plan(const Problem& problem, const Config& config = {}, int device = -1, void* stream = nullptr) {
    const smla_problem p = detail::to_c(problem);
    const smla_config c = detail::to_c(config);
    detail::check(smla_plan_create(&plan_, &p, &c, device, stream));
  }
  ~Plan() { smla_plan_destroy(plan_); }
  Plan(Plan&& other) noexcept : plan_(std::exchange(other.plan_, nullptr)) {}
  Plan& operator=(Plan&& other) noexcept {
    std::swap(plan_, other.plan_);
    return *this;
  }

  std::size_t workspace_size(const Lengths& lengths) const {
    const smla_lengths n = detail::to_c(lengths);
    std::size_t bytes = 0;
    detail::check(smla_workspace_size(plan_, &n, &bytes));
    return bytes;
  }

  // 0 where calls of these lengths have no list pre-pass.
  std::size_t lists_size(const Lengths& lengths) const {
    const smla_lengths n = detail::to_c(lengths);
    std::size_t bytes = 0;
    detail::check(smla_lists_size(plan_, &n, &bytes));
    return bytes;
  }

  void run(const Call& call) const {
    const smla_call c = detail::to_c(call);
    detail::check(smla_run(plan_, &c));
  }

  // One JSON object.
  std::string describe() const {
    const char* text = smla_plan_describe(plan_);
    if (text == nullptr) throw Error(Status::internal_error, smla_last_error());
    return text;
  }

  smla_plan* handle() const noexcept { return plan_; }

 private:
  smla_plan* plan_ = nullptr;
};

}  // namespace smla
