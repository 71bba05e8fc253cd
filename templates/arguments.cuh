// What a kernel receives. The host includes this file too (src/plan), so both sides lay the bytes out alike; plain
// C++ of built-in types, nothing of CUDA.
//
// Lengths, strides, order and the number of CTAs in flight are arguments: 50 sequence lengths use one cubin.
#pragma once

// Elements between neighbours of one dimension. `token` counts query tokens or kv rows, `head` query heads or kv
// groups.
struct Strides {
  long long batch;
  long long token;
  long long head;
};

struct Arguments {
  // Tensors of the call (shapes and types: the contract's table). Null where the problem has none.
  const void* q;             // [B, S, H, d_qk]
  const void* kv;            // [B, S_kv, G, d_qk]
  const void* o;             // [B, S, H, d_v]
  const void* d_o;           // [B, S, H, d_v]
  const int* indices;        // [B, S, G, topk]
  const int* topk_length;    // [B, S, G]; stride 0 over G when it is per token
  const float* lse;          // [B, S, H]
  const float* attn_sink;    // [H]
  const float* delta;        // [B, S, H], brought by the caller
  void* d_q;                 // [B, S, H, d_qk]
  void* d_kv;                // [B, S_kv, G, d_qk]
  float* d_sink;             // [H]

  // Workspace of the caller, laid out by src/plan.
  float* row_lse;            // [B, S, H]: log2 of the denominator with the sink in it; +inf for a dead row
  float* row_delta;          // [B, S, H]; 0 for a dead row
  int* list_length;          // [B, S, G]: entries to look at, 0 for a dead row
  int* block_length;         // [B, blocks, G]: entries that a block of tokens looks at; list_length unless `sorted`
  int* sorted_lists;         // [B, blocks, G, sorted_pitch]; with block_length all that sort_lists writes and, in this
                             // call or a later one, the backward reads
  float* list_bounds;        // [B, S, G, 8, 2]: what may be added to a row (fixed_point.cuh, partial_sums.cuh)
  float* row_norms;          // [B, G, S_kv]: of the value rows; partial sums alone
  float* group_exponent;     // [B, G, token_groups]: log2 of the scale of P; partial sums alone
  float* d_q_shares;         // [split_blocks, shares] of 64 x d_qk: d_q of the shares of a list (wgmma_shares.cuh)
  void* d_kv_sum;            // [B, G, S_kv] rows of fp32 (columns.cuh), deterministic: of integers (fixed_point.cuh);
                             // partial sums: [B, G, token_groups, S_kv] rows of fp16 (partial_sums.cuh)
  unsigned int* counters;    // kCounters words, zero at the start of every call
  const unsigned int* partial_report;  // counters of the call with partial sums that this one stands in for, or null
  void* zero_begin;          // what preprocess zeroes: d_kv_sum and counters, a multiple of 16 bytes
  long long zero_bytes;

  Strides q_strides, kv_strides, o_strides, d_o_strides, indices_strides, topk_length_strides, lse_strides,
      delta_strides, d_q_strides, d_kv_strides;

  long long query_offset;    // global position of query row 0, for the causal test
  int batch;                 // B
  int queries;               // S
  int keys;                  // S_kv
  int topk;
  int group_tokens;          // neighbouring query tokens that share a buffer of partial sums, 64 or 128
  int token_groups;          // of a batch entry
  int sorted_pitch;          // entries between sorted lists
  int sorted;                // 1: backward reads sorted_lists; 0: the caller's lists in their order
  int concatenate;           // 1: sort_lists joins the lists of a block as they stand (they do not fit its bitmaps)
  int sweep;                 // 1: a CTA starts its list where the grid is, and goes round
  int prefetch;              // 1: rows of the next tile's d_kv_sum are brought into L2 ahead of their reductions
  int throttle;              // > 0: a CTA waits while it is this many CTA-tiles ahead of the grid's mean (bounded)
  int ctas_in_flight;        // CTAs that the device runs at once: the unit of the sweep's tile counter
  int whole_ctas;            // CTAs of the backward with a block and its list to themselves, the first of the grid;
  int split_blocks;          // the blocks behind theirs,
  int shares;                // and how many CTAs share the list of each of those
  float scale;               // softmax scale
  float scale_log2;          // scale * log2(e)
};
