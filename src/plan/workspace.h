// How the caller's workspace is divided for one call.
#pragma once

#include <cstdint>

#include "plan/lengths.h"
#include "plan/order.h"
#include "problem/problem.h"

namespace smla::core {

constexpr std::int64_t kWorkspaceAlignment =
    256;                                // of the workspace and of each piece: whole sectors and cache lines
constexpr std::int64_t kCounters = 16;  // words behind the sums: one 64-byte line

// Offsets and sizes in bytes. Pieces that a call does not use have size 0.
struct WorkspaceLayout {
  struct Piece {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    bool operator==(const Piece&) const = default;
  };
  Piece row_lse;                  // [B, S, H] fp32
  Piece row_delta;                // [B, S, H] fp32
  Piece list_length;              // [B, S, G] int32
  Piece lists;                    // all that the list pre-pass writes; only in sorted order
  Piece list_bounds;              // [B, S, G, 8, 2] fp32; only for a deterministic problem
  Piece row_norms;                // [B, G, S_kv] fp32; partial sums only
  Piece group_exponent;           // [B, G, token groups] fp32; partial sums only
  Piece d_q_shares;               // [split blocks, shares, 64, d_qk] fp32; only where lists are split
  Piece d_kv_sum;                 // [B, G, S_kv] rows of sum_row_bytes
  Piece counters;                 // kCounters words, directly behind d_kv_sum: both are zeroed as one range
  Piece block_length;             // in `lists`: [B, blocks, G] int32,
  Piece sorted_lists;             // and [B, blocks, G, sorted_pitch] int32
  std::int64_t sorted_pitch = 0;  // tokens * topk rounded up to 4: every sorted list starts on 16 bytes
  std::int64_t group_tokens = 1;  // of a buffer of partial sums,
  std::int64_t token_groups = 1;  // and how many buffers a batch entry and kv group has
  std::int64_t bytes = 0;         // of all, without `lists` where they lie outside

  bool operator==(const WorkspaceLayout&) const = default;
};

// Takes validated lengths. `lists_outside`: the caller brings memory for `lists`, whose offset is then 0 in
// it. Their size is a multiple of kWorkspaceAlignment, so that a workspace without them is smaller by just
// that. Error not_supported when a size overflows 64 bits.
WorkspaceLayout workspace_layout(const Problem& problem, const Config& config, const Lengths& lengths,
                                 const Order& order, bool lists_outside = false);

}  // namespace smla::core
