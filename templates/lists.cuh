// Tokens, their lists and which entries count: shared by every kernel of the call.
#pragma once

constexpr float kLog2E = 1.4426950408889634f;
PTX_FN float infinity() { return __uint_as_float(0x7f800000u); }

// Where one CTA of the backward works: 64-bit wherever it meets an address.
struct Place {
  long long b;      // batch entry
  long long s;      // query token of it, the first of a block of tokens
  int group;        // kv group
  int first_head;   // of the head block, counted over all heads
  int heads;        // in the block that exist; the rest of block_h is padding
  long long list;   // (b, block of tokens, group) counted in a row: index of block_length and of sorted lists
};

PTX_FN u32 token_blocks(const Arguments& args) {  // of a batch entry
  return ((u32)args.queries + (Spec::block_tokens - 1)) / (u32)Spec::block_tokens;
}

// Head block fastest, then group, then token: CTAs that share a list run side by side.
PTX_FN Place place_of(const Arguments& args, u32 cta) {
  Place place;
  const u32 block = cta % (u32)Spec::head_blocks;
  const u32 list = cta / (u32)Spec::head_blocks;
  place.list = list;
  place.group = (int)(list % (u32)Spec::kv_groups);
  const u32 tokens = list / (u32)Spec::kv_groups;
  place.b = tokens / token_blocks(args);
  place.s = tokens % token_blocks(args) * (u32)Spec::block_tokens;
  place.first_head = place.group * Spec::heads_per_group + (int)block * Spec::block_h;
  place.heads = min(Spec::block_h, Spec::heads_per_group - (int)block * Spec::block_h);
  return place;
}

PTX_FN long long offset_of(const Strides& strides, long long batch, long long token, long long head) {
  return batch * strides.batch + token * strides.token + head * strides.head;
}

// An entry counts when it is below this: S_kv, or with the causal mask the rows up to s + query_offset.
PTX_FN u32 key_limit(const Arguments& args, long long s) {
  if (!Spec::causal) return (u32)args.keys;
  const long long reach = s + args.query_offset + 1;
  return (u32)(reach < 0 ? 0 : reach < args.keys ? reach : args.keys);
}

// The sums of d_kv of a batch entry and group: one row of Spec::sum_row_bytes after the other.
PTX_FN const char* sums_of(const Arguments& args, long long b, int group) {
  return (const char*)args.d_kv_sum + (b * Spec::kv_groups + group) * (long long)args.keys * Spec::sum_row_bytes;
}

// How many entries of a list the caller gave: clamp(topk_length, 0, topk).
PTX_FN int given_length(const Arguments& args, long long b, long long s, int group) {
  if (!Spec::has_topk_length) return args.topk;
  const int length = (int)ld_global_nc_u32(args.topk_length + offset_of(args.topk_length_strides, b, s, group));
  return max(0, min(length, args.topk));
}

// A list that several tokens share says with each row which of them named it, a bit a token.
constexpr bool kShared = Spec::block_tokens > 1;
static_assert(Spec::block_tokens <= 8, "a byte of an entry names the tokens");

PTX_FN u32 entry_of(u32 row, u32 tokens) { return kShared ? row << 8 | tokens : row; }
PTX_FN int row_of(int entry) { return kShared ? entry >> 8 : entry; }  // -1 stays -1
PTX_FN u32 tokens_of(int entry) { return kShared ? (u32)entry & 255u : 0u; }

// The list that the backward reads for a place: the caller's, or the one that sort_lists wrote.
PTX_FN const int* list_of(const Arguments& args, const Place& place) {
  if (kShared || args.sorted) return args.sorted_lists + place.list * args.sorted_pitch;
  return args.indices + offset_of(args.indices_strides, place.b, place.s, place.group);
}

// The kv row that an entry names, or -1 where there is none: past the list, negative, or at or above the limit. A -1
// is never turned into an address.
PTX_FN int row_at(const int* list, int position, int length, u32 limit) {
  if (position >= length) return -1;
  const u32 row = ld_global_nc_u32(list + position);
  return row < limit ? (int)row : -1;
}
