#include "api/convert.h"

#include <array>
#include <limits>

#include "api/sized.h"
#include "base/error.h"

namespace smla::core {
namespace {

static_assert(SMLA_SUCCESS == static_cast<int>(Status::success));
static_assert(SMLA_INVALID_ARGUMENT == static_cast<int>(Status::invalid_argument));
static_assert(SMLA_NOT_SUPPORTED == static_cast<int>(Status::not_supported));
static_assert(SMLA_NO_DRIVER == static_cast<int>(Status::no_driver));
static_assert(SMLA_NO_COMPILER == static_cast<int>(Status::no_compiler));
static_assert(SMLA_COMPILE_FAILED == static_cast<int>(Status::compile_failed));
static_assert(SMLA_NOT_CACHED == static_cast<int>(Status::not_cached));
static_assert(SMLA_CUDA_ERROR == static_cast<int>(Status::cuda_error));
static_assert(SMLA_CAPTURING == static_cast<int>(Status::capturing));
static_assert(SMLA_INTERNAL_ERROR == static_cast<int>(Status::internal_error));
static_assert(SMLA_BF16 == static_cast<int>(DType::bf16) && SMLA_FP16 == static_cast<int>(DType::fp16));
static_assert(SMLA_LSE_BASE_2 == static_cast<int>(LseBase::two) &&
              SMLA_LSE_BASE_E == static_cast<int>(LseBase::e));
static_assert(SMLA_D_KV_OPERAND == static_cast<int>(DkvType::operand) &&
              SMLA_D_KV_FP32 == static_cast<int>(DkvType::fp32));
static_assert(SMLA_ACCUMULATE_FP32 == static_cast<int>(Accumulate::fp32) &&
              SMLA_ACCUMULATE_PARTIAL == static_cast<int>(Accumulate::partial));
static_assert(SMLA_ORDER_AUTO == static_cast<int>(OrderRequest::automatic) &&
              SMLA_ORDER_CALLERS == static_cast<int>(OrderRequest::callers) &&
              SMLA_ORDER_SORTED == static_cast<int>(OrderRequest::sorted) &&
              SMLA_ORDER_SORTED_THROTTLED == static_cast<int>(OrderRequest::sorted_throttled));

bool to_flag(std::int32_t value, const char* field) {
  if (value != 0 && value != 1) fail(Status::invalid_argument, "{} = {} is neither 0 nor 1", field, value);
  return value == 1;
}

// An enum of two values.
template <class T>
T to_enum(std::int32_t value, const char* field) {
  if (value != 0 && value != 1) {
    fail(Status::invalid_argument, "{} = {} is neither 0 ({}) nor 1 ({})", field, value,
         name(static_cast<T>(0)), name(static_cast<T>(1)));
  }
  return static_cast<T>(value);
}

void check_reserved(std::int32_t value, const char* field) {
  if (value != 0) fail(Status::invalid_argument, "{} = {} is reserved and has to be 0", field, value);
}

std::optional<int> forced(std::int32_t value, const char* field) {
  if (value < 0) fail(Status::invalid_argument, "{} = {} is negative; 0 lets smla choose", field, value);
  if (value == 0) return std::nullopt;
  return value;
}

std::optional<Schedule> to_schedule(std::int32_t value) {
  switch (value) {
    case SMLA_SCHEDULE_AUTO:
      return std::nullopt;
    case SMLA_SCHEDULE_CP_ASYNC:
      return Schedule::cp_async;
    case SMLA_SCHEDULE_WGMMA:
      return Schedule::wgmma;
    case SMLA_SCHEDULE_WGMMA_PAIR:
      return Schedule::wgmma_pair;
    default:
      fail(Status::invalid_argument,
           "config.schedule = {} is none of 0 (automatic), 1 (cp_async), 2 (wgmma), 3 (wgmma_pair)", value);
  }
}

Tensor to_tensor(const smla_tensor& tensor) {
  return {tensor.data, {tensor.strides[0], tensor.strides[1], tensor.strides[2]}};
}

void set_strides(smla_tensor& tensor, const Tensor& from) {
  for (std::size_t d = 0; d < 3; ++d) tensor.strides[d] = from.strides[d];
}

}  // namespace

smla_problem default_problem() {
  const Problem defaults;
  smla_problem p = {};
  p.struct_size = sizeof p;
  p.kv_groups = defaults.kv_groups;
  p.d_v = defaults.d_v;
  p.d_tail = defaults.d_tail;
  return p;  // every other field's default is 0
}

smla_config default_config() {
  smla_config c = {};
  c.struct_size = sizeof c;
  return c;
}

Problem to_problem(const smla_problem* from) {
  const smla_problem p = read_sized(from, default_problem(), "problem");
  Problem to;
  to.heads = p.heads;
  to.kv_groups = p.kv_groups;
  to.d_v = p.d_v;
  to.d_tail = p.d_tail;
  to.dtype = to_enum<DType>(p.dtype, "problem.dtype");
  to.causal = to_flag(p.causal, "problem.causal");
  to.has_sink = to_flag(p.has_sink, "problem.has_sink");
  to.has_topk_length = to_flag(p.has_topk_length, "problem.has_topk_length");
  to.has_delta = to_flag(p.has_delta, "problem.has_delta");
  to.lse_base = to_enum<LseBase>(p.lse_base, "problem.lse_base");
  to.lse_includes_sink = to_flag(p.lse_includes_sink, "problem.lse_includes_sink");
  to.d_kv_type = to_enum<DkvType>(p.d_kv_type, "problem.d_kv_type");
  to.accumulate = to_enum<Accumulate>(p.accumulate, "problem.accumulate");
  to.deterministic = to_flag(p.deterministic, "problem.deterministic");
  return to;
}

ConfigRequest to_request(const smla_config* from) {
  if (from == nullptr) return {};
  const smla_config c = read_sized(from, default_config(), "config");
  check_reserved(c.reserved, "config.reserved");
  return {to_schedule(c.schedule), forced(c.block_h, "config.block_h"),
          forced(c.block_size, "config.block_size"), forced(c.stages, "config.stages"),
          forced(c.threads, "config.threads")};
}

LengthsAndOrder to_lengths(const smla_lengths* from) {
  if (from == nullptr) fail(Status::invalid_argument, "lengths is null");
  for (const std::int32_t reserved : from->reserved) check_reserved(reserved, "lengths.reserved");
  return {{from->batch, from->queries, from->keys, from->topk}, static_cast<OrderRequest>(from->order)};
}

smla_call default_call(const smla_problem* problem, const smla_lengths& lengths) {
  Call contiguous;
  contiguous.lengths = to_lengths(&lengths).lengths;
  set_contiguous_strides(contiguous, to_problem(problem));
  smla_call c = {};
  c.struct_size = sizeof c;
  c.lengths = lengths;
  set_strides(c.q, contiguous.q);
  set_strides(c.kv, contiguous.kv);
  set_strides(c.o, contiguous.o);
  set_strides(c.d_o, contiguous.d_o);
  set_strides(c.indices, contiguous.indices);
  set_strides(c.topk_length, contiguous.topk_length);
  set_strides(c.lse, contiguous.lse);
  set_strides(c.delta, contiguous.delta);
  set_strides(c.d_q, contiguous.d_q);
  set_strides(c.d_kv, contiguous.d_kv);
  c.scale = std::numeric_limits<float>::quiet_NaN();
  return c;
}

Call to_call(const smla_call* from) {
  smla_call defaults = {};
  defaults.scale = std::numeric_limits<float>::quiet_NaN();
  const smla_call c = read_sized(from, defaults, "call");
  check_reserved(c.reserved, "call.reserved");
  check_reserved(c.reserved2, "call.reserved2");
  const LengthsAndOrder lengths = to_lengths(&c.lengths);
  Call to;
  to.lengths = lengths.lengths;
  to.order = lengths.order;
  to.q = to_tensor(c.q);
  to.kv = to_tensor(c.kv);
  to.o = to_tensor(c.o);
  to.d_o = to_tensor(c.d_o);
  to.indices = to_tensor(c.indices);
  to.topk_length = to_tensor(c.topk_length);
  to.lse = to_tensor(c.lse);
  to.delta = to_tensor(c.delta);
  to.attn_sink = c.attn_sink;
  to.d_q = to_tensor(c.d_q);
  to.d_kv = to_tensor(c.d_kv);
  to.d_sink = c.d_sink;
  to.scale = c.scale;
  to.query_offset = c.query_offset;
  to.workspace = c.workspace;
  to.workspace_bytes = c.workspace_bytes;
  to.stream = static_cast<cuda::Stream>(c.stream);
  to.lists = c.lists;
  to.lists_bytes = c.lists_bytes;
  to.lists_are_ready = to_flag(c.lists_are_ready, "call.lists_are_ready");
  return to;
}

}  // namespace smla::core
