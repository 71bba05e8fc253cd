// One call: tensors, lengths and scalars, and what is refused before anything is launched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "config/config.h"
#include "driver/cuda_abi.h"
#include "plan/lengths.h"
#include "plan/order.h"
#include "problem/problem.h"

namespace smla::core {

// Device memory seen as [batch, token, head, columns]: the columns are contiguous, the strides of the other
// dimensions are in elements. "token" is a query token or a kv row, "head" a query head or a kv group.
// Strides of dimensions of length 1 are not looked at.
struct Tensor {
  void* data = nullptr;
  std::array<std::int64_t, 3> strides = {0, 0, 0};
};

struct Call {
  Lengths lengths;
  OrderRequest order = OrderRequest::automatic;

  // Inputs; never written.
  Tensor q;        // [B, S, H, d_qk]
  Tensor kv;       // [B, S_kv, G, d_qk]
  Tensor o;        // [B, S, H, d_v]; not read and may be null when the problem has_delta
  Tensor d_o;      // [B, S, H, d_v]
  Tensor indices;  // [B, S, G, topk] int32
  Tensor
      topk_length;  // [B, S, G] int32, head stride 0 when it is per token; when the problem has_topk_length
  Tensor lse;       // [B, S, H] fp32
  Tensor delta;     // [B, S, H] fp32; when the problem has_delta
  const void* attn_sink = nullptr;  // [H] fp32, contiguous; when the problem has_sink

  // Outputs; fully written.
  Tensor d_q;              // [B, S, H, d_qk]
  Tensor d_kv;             // [B, S_kv, G, d_qk], of the problem's d_kv_type
  void* d_sink = nullptr;  // [H] fp32, contiguous; when the problem has_sink

  float scale =
      std::numeric_limits<float>::quiet_NaN();  // softmax scale: has to be set, NaN and inf are refused
  std::int64_t query_offset = 0;  // global position of query row 0; looked at when the problem is causal
  void* workspace = nullptr;      // device memory, aligned to 256 bytes
  std::size_t workspace_bytes = 0;
  cuda::Stream stream = nullptr;

  // What the list pre-pass writes, in device memory that the caller keeps; null: in the workspace. Neither is
  // looked at where the pre-pass does not run.
  void* lists = nullptr;  // aligned as the workspace
  std::size_t lists_bytes = 0;
  bool lists_are_ready = false;  // an earlier call over the same lists wrote them: the pre-pass is left out
};

// Strides of contiguous tensors of these lengths, in every tensor of the call; topk_length per token and
// group.
void set_contiguous_strides(Call& call, const Problem& problem);

// (d_v + d_tail)^-1/2.
float default_scale(const Problem& problem);

// Everything about a call but its lengths and workspace. Error invalid_argument names the tensor and the
// value: a null pointer of a non-empty tensor; a tensor that the problem does not have; pointers and strides
// of q, kv, o, d_o, d_q, d_kv that are no multiples of 16 bytes, of others that are not naturally aligned;
// negative strides; outputs that overlap themselves, share their first element with another tensor or lie in
// the workspace; a scale that is not finite; a query_offset outside +-(2^31 - 1). Error not_supported: a
// token stride of kv that the kernels of this config cannot reach.
void validate(const Call& call, const Problem& problem, const Config& config);

// Null, misaligned or smaller than `needed` bytes: Error invalid_argument.
void validate_workspace(const Call& call, std::int64_t needed);

// Ready and null, misaligned, smaller than `needed` bytes, or overlapping the workspace or a tensor: Error
// invalid_argument. Looks at nothing where 0 bytes are needed.
void validate_lists(const Call& call, const Problem& problem, std::int64_t needed);

}  // namespace smla::core
