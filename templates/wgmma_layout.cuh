// Schedules wgmma and wgmma_pair: where things lie in shared memory, in panels that wgmma's descriptors
// (operand_wgmma.cuh) name. The schedules are drawn in backward_wgmma.cuh and backward_wgmma_pair.cuh.
#pragma once

constexpr u32 kBase = 1024;        // where dynamic shared memory starts; checked when the kernel begins
constexpr int kPanel = 64 * 128;   // bytes of 64 rows x 64 columns
constexpr int kQkPanels = Spec::d_qk / 64;
constexpr int kVPanels = Spec::d_v / 64;
constexpr int kMostGroups = 4;     // of kv panels that are filled and freed together
constexpr u32 kNoRow = 0xf0000000u;  // row offsets from here on mean: no reduction

struct Shared {
  static constexpr u32 q = kBase;
  static constexpr u32 d_o = q + kQkPanels * kPanel;
  static constexpr u32 kv = d_o + kVPanels * kPanel;
  static constexpr u32 p = kv + kQkPanels * kPanel;
  static constexpr u32 ds = p + kPanel;
  static constexpr u32 row_offsets = ds + kPanel;          // 2 tiles x 64 words: kv row's offset in d_kv_sum | its tokens
  static constexpr u32 delta = row_offsets + 2 * 64 * 4;   // 64 floats
  static constexpr u32 full = delta + 64 * 4;              // a barrier a group of kv panels
  static constexpr u32 empty = full + kMostGroups * 8;
  static constexpr u32 q_ready = empty + kMostGroups * 8;
  static constexpr u32 offsets_ready = q_ready + 8;
  static constexpr u32 sweep_tile = (offsets_ready + 8 + 15) / 16 * 16;  // where this CTA starts its list,
  static constexpr u32 sweep_counter = sweep_tile + 4;     // the sweep's counter then,
  static constexpr u32 sweep_step = sweep_counter + 4;     // and what each tile adds to it
  static constexpr u32 block = sweep_tile + 16;            // place_of's number of this CTA's block,
  static constexpr u32 part_begin = block + 4;             // the first entry of its list that is this CTA's,
  static constexpr u32 part_end = part_begin + 4;          // and the first behind it that is not
  static constexpr u32 row_codes = (part_end + 4 + 15) / 16 * 16;  // as row_offsets, deterministic problems only
  static constexpr u32 end = Spec::deterministic ? row_codes + 2 * 64 * 4 : row_codes;
};
static_assert(Shared::end - kBase <= Spec::shared_bytes, "the launch asks for less shared memory than the kernel uses");

enum NamedBarrier { P_READY = 1, P_FREE = 2, SCORE_ONLY = 3, GATHER_ONLY = 4, DELTA_READY = 5 };  // 0 is __syncthreads

// The 64 rows of q and d_o are block_tokens tokens of block_h heads each.
constexpr bool kPadded = Spec::heads_per_group % Spec::block_h != 0;  // some rows are no head,
constexpr bool kRagged = kPadded || kShared;                          // or no head or no token

struct HeadRow {
  long long s;  // token
  int head;     // counted over all heads
  bool exists;
};

PTX_FN HeadRow head_row(const Arguments& args, const Place& place, int row) {
  const int token = kShared ? row / Spec::block_h : 0, head = kShared ? row % Spec::block_h : row;
  HeadRow result;
  result.s = place.s + token;
  result.head = place.first_head + head;
  result.exists = (!kPadded || head < place.heads) && (!kShared || result.s < args.queries);
  return result;
}

// Its index in row_lse and row_delta.
PTX_FN long long index_of(const Arguments& args, const Place& place, const HeadRow& row) {
  return (place.b * args.queries + row.s) * Spec::heads + row.head;
}

// d_q's columns: the score warpgroup has 0 .. 255 and, where there is a tail, 256 .. 287; the gradient warpgroup the
// rest. (144 accumulators beside S and dP fill the 240 registers; 160 do not fit.)
constexpr bool kHasTail = Spec::d_tail != 0;

// Operands of the gradient warpgroup: k counts 16 heads (q, d_o) or 16 kv rows (kv).
PTX_FN u64 q_columns(int column, int k) { return mn_major(Shared::q + column / 64 * kPanel + column % 64 * 2 + k * 2048); }
PTX_FN u64 d_o_columns(int column, int k) {
  return mn_major(Shared::d_o + column / 64 * kPanel + column % 64 * 2 + k * 2048);
}
PTX_FN u64 kv_columns(int column, int k) {
  return mn_major(Shared::kv + column / 64 * kPanel + column % 64 * 2 + k * 2048);
}
PTX_FN u64 p_columns(int k) { return mn_major(Shared::p + k * 2048); }
PTX_FN u64 ds_columns(int k) { return mn_major(Shared::ds + k * 2048); }
PTX_FN u64 ds_rows(int k) { return k_major(Shared::ds + k * 32); }
