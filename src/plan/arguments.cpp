#include "plan/arguments.h"

namespace smla::core {
namespace {

constexpr float kLog2E = 1.44269504F;

Strides strides(const Tensor& tensor, std::int64_t batch, std::int64_t tokens, std::int64_t heads) {
  return {batch > 1 ? tensor.strides[0] : 0, tokens > 1 ? tensor.strides[1] : 0,
          heads > 1 ? tensor.strides[2] : 0};
}

template <class T>
T* piece(const Call& call, const WorkspaceLayout::Piece& where) {
  return reinterpret_cast<T*>(static_cast<char*>(call.workspace) + where.offset);
}

}  // namespace

void* lists_of(const Call& call, const WorkspaceLayout& layout) {
  return call.lists != nullptr ? call.lists : piece<void>(call, layout.lists);
}

Arguments make_arguments(const Problem& p, const Config& config, const Call& call,
                         const WorkspaceLayout& layout, const Order& order, const DeviceFacts& device) {
  const Lengths& n = call.lengths;
  const std::int64_t b = n.batch, s = n.queries, h = p.heads, g = p.kv_groups;
  Arguments a = {};
  a.q = call.q.data;
  a.kv = call.kv.data;
  a.o = call.o.data;
  a.d_o = call.d_o.data;
  a.indices = static_cast<const int*>(call.indices.data);
  a.topk_length = static_cast<const int*>(call.topk_length.data);
  a.lse = static_cast<const float*>(call.lse.data);
  a.attn_sink = static_cast<const float*>(call.attn_sink);
  a.delta = static_cast<const float*>(call.delta.data);
  a.d_q = call.d_q.data;
  a.d_kv = call.d_kv.data;
  a.d_sink = static_cast<float*>(call.d_sink);

  a.row_lse = piece<float>(call, layout.row_lse);
  a.row_delta = piece<float>(call, layout.row_delta);
  a.list_length = piece<int>(call, layout.list_length);
  a.block_length = a.list_length;
  if (order.sorted) {
    char* lists = static_cast<char*>(lists_of(call, layout));
    a.block_length = reinterpret_cast<int*>(lists + layout.block_length.offset);
    a.sorted_lists = reinterpret_cast<int*>(lists + layout.sorted_lists.offset);
  }
  const bool partial = p.accumulate == Accumulate::partial;
  a.list_bounds = p.deterministic || partial ? piece<float>(call, layout.list_bounds) : nullptr;
  a.row_norms = partial ? piece<float>(call, layout.row_norms) : nullptr;
  a.group_exponent = partial ? piece<float>(call, layout.group_exponent) : nullptr;
  a.group_tokens = static_cast<int>(layout.group_tokens);
  a.token_groups = static_cast<int>(layout.token_groups);
  a.d_q_shares = order.split.blocks > 0 ? piece<float>(call, layout.d_q_shares) : nullptr;
  a.d_kv_sum = piece<void>(call, layout.d_kv_sum);
  a.counters = piece<unsigned>(call, layout.counters);
  a.zero_begin = a.d_kv_sum;
  a.zero_bytes = layout.d_kv_sum.bytes + layout.counters.bytes;

  a.q_strides = strides(call.q, b, s, h);
  a.kv_strides = strides(call.kv, b, n.keys, g);
  a.o_strides = strides(call.o, b, s, h);
  a.d_o_strides = strides(call.d_o, b, s, h);
  a.indices_strides = strides(call.indices, b, s, g);
  a.topk_length_strides = strides(call.topk_length, b, s, g);
  a.lse_strides = strides(call.lse, b, s, h);
  a.delta_strides = strides(call.delta, b, s, h);
  a.d_q_strides = strides(call.d_q, b, s, h);
  a.d_kv_strides = strides(call.d_kv, b, n.keys, g);

  a.query_offset = call.query_offset;
  a.batch = static_cast<int>(b);
  a.queries = static_cast<int>(s);
  a.keys = static_cast<int>(n.keys);
  a.topk = static_cast<int>(n.topk);
  a.sorted_pitch = static_cast<int>(layout.sorted_pitch);
  a.sorted = order.sorted ? 1 : 0;
  a.concatenate = order.concatenate ? 1 : 0;
  a.sweep = order.sweep ? 1 : 0;
  a.prefetch = order.prefetch ? 1 : 0;
  a.throttle = order.throttle;
  a.ctas_in_flight = device.ctas_in_flight;
  a.whole_ctas = static_cast<int>(backward_ctas(n, p, config)) - order.split.blocks;
  a.split_blocks = order.split.blocks;
  a.shares = order.split.shares;
  a.scale = call.scale;
  a.scale_log2 = call.scale * kLog2E;
  return a;
}

}  // namespace smla::core
