// sort_lists: the valid entries of the lists of a block of tokens, in row order.
//
// The backward's sweep over long contexts wants a list in row order; a block of several tokens wants one list, in which
// a row that two of its tokens name stands once and is gathered and reduced once (entry_of: a bit a token).
//
// One CTA a block. A bitmap of the kv rows a token is filled from the entries, and the union of the bitmaps is read
// back in order: no comparison sort, and invalid entries, the causal mask and topk_length are gone with it. A row that
// a token names m times comes m - 1 times more behind the ordered part, in the caller's order: the list does not depend
// on which thread came first.
//
// Where the bitmaps do not fit the shared memory, the lists of a block are joined as they stand (args.concatenate),
// entries that do not count as -1.
//
// Shared memory: a bitmap a token (one bit a kv row), where the runs of words begin in the list, the warps' sums.
#pragma once

constexpr int kSortThreads = 256;

// Inclusive prefix sum over the lanes of a warp.
PTX_FN int warp_prefix_sum(int value, int lane) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, value, step);
    if (lane >= step) value += below;
  }
  return value;
}

struct SortShared {
  u32 begin;    // of each thread's run of words: where its rows begin in the list
  u32 sums;     // of the 8 warps
  u32 repeats;  // whether any token names a row twice
  u32 bitmaps;  // of the block's tokens, one after the other
  int words;    // of a bitmap
};

PTX_FN SortShared sort_shared(const Arguments& args, u32 base) {
  SortShared shared;
  shared.begin = base;
  shared.sums = shared.begin + kSortThreads * 4;
  shared.repeats = shared.sums + 32;
  shared.bitmaps = shared.repeats + 16;
  shared.words = (int)(((long long)args.keys + 31) / 32);
  return shared;
}

PTX_FN u32 union_of_bitmaps(const SortShared& shared, int word) {
  u32 bits = 0;
#pragma unroll
  for (int token = 0; token < Spec::block_tokens; ++token) {
    bits |= ld_shared_u32(shared.bitmaps + (token * shared.words + word) * 4);
  }
  return bits;
}

// A token's list as the caller gave it.
struct GivenList {
  const int* entries;
  int length;
  u32 limit;
};

PTX_FN GivenList given_list(const Arguments& args, const Place& place, int token) {
  const long long s = place.s + token;
  if (s >= args.queries) return {args.indices, 0, 0};
  return {args.indices + offset_of(args.indices_strides, place.b, s, place.group),
          given_length(args, place.b, s, place.group), key_limit(args, s)};
}

// Appends what a token names a second time, in the caller's order. One warp, and only where there is such an entry: it
// goes over the lists once more with bitmaps that begin empty.
PTX_FN int append_repeats(const Arguments& args, const Place& place, const SortShared& shared, int* out, int end, int lane) {
#pragma unroll 1
  for (int token = 0; token < Spec::block_tokens; ++token) {
    const u32 bitmap = shared.bitmaps + token * shared.words * 4;
    for (int i = lane; i < shared.words; i += 32) st_shared_u32(bitmap + i * 4, 0);
    __syncwarp();
    const GivenList list = given_list(args, place, token);
    for (int first = 0; first < list.length; first += 32) {
      const int row = row_at(list.entries, first + lane, list.length, list.limit);
      bool repeat = row >= 0 && (ld_shared_u32(bitmap + (row >> 5) * 4) >> (row & 31) & 1);
#pragma unroll 1
      for (int other = 0; other < 31; ++other) {  // within these 32, the first one of a row is the one that counts
        const int row_of_other = __shfl_sync(0xffffffffu, row, other);
        repeat = repeat || (row >= 0 && other < lane && row_of_other == row);
      }
      __syncwarp();
      if (row >= 0 && !repeat) atom_shared_or_u32(bitmap + (row >> 5) * 4, 1u << (row & 31));
      __syncwarp();
      const u32 repeats = __ballot_sync(0xffffffffu, repeat);
      if (repeat) st_global_u32(out + end + __popc(repeats & ((1u << lane) - 1)), entry_of((u32)row, 1u << token));
      end += __popc(repeats);
    }
  }
  return end;
}

// Writes the block's list in row order and returns its length, in warp 0.
PTX_FN int list_in_row_order(const Arguments& args, const Place& place, const SortShared& shared, int* out) {
  const int t = (int)threadIdx.x, warp = t / 32, lane = t % 32;
  for (int i = t; i < shared.words * Spec::block_tokens; i += kSortThreads) st_shared_u32(shared.bitmaps + i * 4, 0);
  if (t == 0) st_shared_u32(shared.repeats, 0);
  __syncthreads();

  // Fill. An entry whose bit was set already is a repeat.
#pragma unroll 1
  for (int token = 0; token < Spec::block_tokens; ++token) {
    const u32 bitmap = shared.bitmaps + token * shared.words * 4;
    const GivenList list = given_list(args, place, token);
    for (int position = t; position < list.length; position += kSortThreads) {
      const int row = row_at(list.entries, position, list.length, list.limit);
      if (row < 0) continue;
      const u32 bit = 1u << (row & 31);
      if (atom_shared_or_u32(bitmap + (row >> 5) * 4, bit) & bit) atom_shared_or_u32(shared.repeats, 1);
    }
  }
  __syncthreads();

  // Where each thread's run of words begins in the list.
  const int run = (shared.words + kSortThreads - 1) / kSortThreads;
  int count = 0;
  for (int i = t * run; i < min((t + 1) * run, shared.words); ++i) count += __popc(union_of_bitmaps(shared, i));
  const int up_to_here = warp_prefix_sum(count, lane);
  if (lane == 31) st_shared_u32(shared.sums + warp * 4, (u32)up_to_here);
  __syncthreads();
  int begin = up_to_here - count, total = 0;
  for (int i = 0; i < kSortThreads / 32; ++i) {
    const int sum = (int)ld_shared_u32(shared.sums + i * 4);
    if (i < warp) begin += sum;
    total += sum;
  }
  st_shared_u32(shared.begin + t * 4, (u32)begin);
  __syncthreads();

  // A warp writes a run at a time, a lane a bit of each word, so that the rows leave side by side.
  for (int i = warp; i < kSortThreads; i += kSortThreads / 32) {
    int slot = (int)ld_shared_u32(shared.begin + i * 4);
    for (int word = i * run; word < min((i + 1) * run, shared.words); ++word) {
      const u32 bits = union_of_bitmaps(shared, word);
      if (bits >> lane & 1) {
        u32 tokens = 0;
#pragma unroll
        for (int token = 0; token < Spec::block_tokens; ++token) {
          tokens |= (ld_shared_u32(shared.bitmaps + (token * shared.words + word) * 4) >> lane & 1) << token;
        }
        st_global_u32(out + slot + __popc(bits & ((1u << lane) - 1)), entry_of((u32)(word * 32 + lane), tokens));
      }
      slot += __popc(bits);
    }
  }
  __syncthreads();
  if (warp == 0 && ld_shared_u32(shared.repeats)) total = append_repeats(args, place, shared, out, total, lane);
  return total;
}

// Writes the lists one after the other, each at a multiple of topk, and returns where the last of them ends.
PTX_FN int lists_joined(const Arguments& args, const Place& place, int* out) {
  int end = 0;
  for (int token = 0; token < Spec::block_tokens && place.s + token < args.queries; ++token) {
    const long long of_token = (place.b * args.queries + place.s + token) * Spec::kv_groups + place.group;
    if (ld_global_nc_u32(args.list_length + of_token) != 0) {
      end = token * args.topk + (int)ld_global_nc_u32(args.list_length + of_token);
    }
  }
  for (int token = 0; token < Spec::block_tokens; ++token) {
    const GivenList list = given_list(args, place, token);
    for (int position = (int)threadIdx.x; position < args.topk; position += kSortThreads) {
      const int row = row_at(list.entries, position, list.length, list.limit);
      st_global_u32(out + token * args.topk + position, row < 0 ? 0xffffffffu : entry_of((u32)row, 1u << token));
    }
  }
  return end;
}

PTX_FN void sort_lists(const Arguments& args) {
  if (!is_wanted(args)) return;
  PTX_DYNAMIC_SHARED(shared);
  const Place place = place_of(args, ctaid_x() * Spec::head_blocks);  // all head blocks of it share the list
  int* out = args.sorted_lists + place.list * args.sorted_pitch;
  const int length = kShared && args.concatenate
                         ? lists_joined(args, place, out)
                         : list_in_row_order(args, place, sort_shared(args, shared_address(shared)), out);
  if (threadIdx.x == 0) st_global_u32(args.block_length + place.list, (u32)length);
}
