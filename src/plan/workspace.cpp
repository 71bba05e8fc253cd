#include "plan/workspace.h"

#include <initializer_list>
#include <limits>

#include "base/error.h"
#include "generator/generator.h"

namespace smla::core {
namespace {

std::int64_t product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) {
      fail(Status::not_supported, "a workspace of more than {} bytes is needed (lengths)",
           std::numeric_limits<std::int64_t>::max());
    }
  }
  return result;
}

// Appends pieces one behind the other.
class Layout {
 public:
  WorkspaceLayout::Piece aligned(std::int64_t bytes) {
    end_ = sum(end_, (kWorkspaceAlignment - end_ % kWorkspaceAlignment) % kWorkspaceAlignment);
    return adjacent(bytes);
  }
  WorkspaceLayout::Piece adjacent(std::int64_t bytes) {
    const std::int64_t begin = end_;
    end_ = sum(end_, bytes);
    return {begin, bytes};
  }
  std::int64_t end() const { return end_; }

 private:
  static std::int64_t sum(std::int64_t a, std::int64_t b) {
    if (__builtin_add_overflow(a, b, &a)) {
      fail(Status::not_supported, "a workspace of more than {} bytes is needed (lengths)",
           std::numeric_limits<std::int64_t>::max());
    }
    return a;
  }
  std::int64_t end_ = 0;
};

}  // namespace

WorkspaceLayout workspace_layout(const Problem& problem, const Config& config, const Lengths& lengths,
                                 const Order& order, bool lists_outside) {
  const std::int64_t b = lengths.batch, s = lengths.queries, h = problem.heads, g = problem.kv_groups;
  WorkspaceLayout w;
  Layout layout;
  w.row_lse = layout.aligned(product({b, s, h, 4}));
  w.row_delta = layout.aligned(product({b, s, h, 4}));
  w.list_length = layout.aligned(product({b, s, g, 4}));
  if (order.sorted) {
    const std::int64_t tokens = block_tokens(config), blocks = blocks_of_tokens(lengths, config);
    w.sorted_pitch = (tokens * lengths.topk + 3) / 4 * 4;
    Layout lists;
    w.block_length = lists.aligned(product({blocks, g, 4}));
    w.sorted_lists = lists.aligned(product({blocks, g, w.sorted_pitch, 4}));
    w.lists.bytes = lists.aligned(0).offset;
    if (!lists_outside) w.lists = layout.aligned(w.lists.bytes);
  }
  const bool partial = problem.accumulate == Accumulate::partial;
  if (problem.deterministic || partial) w.list_bounds = layout.aligned(product({b, s, g, 8, 2, 4}));
  if (partial) {
    w.group_tokens = group_tokens(problem, config, lengths);
    w.token_groups = token_groups(problem, config, lengths);
    w.row_norms = layout.aligned(product({b, g, lengths.keys, 4}));
    w.group_exponent = layout.aligned(product({b, g, w.token_groups, 4}));
  }
  if (order.split.blocks > 0)
    w.d_q_shares = layout.aligned(product({order.split.blocks, order.split.shares, 64, problem.d_qk(), 4}));
  w.d_kv_sum =
      layout.aligned(product({b, g, w.token_groups, lengths.keys, sum_row_bytes(problem)}));  // a multiple of 128
  w.counters = layout.adjacent(kCounters * 4);
  w.bytes = layout.end();
  return w;
}

}  // namespace smla::core
