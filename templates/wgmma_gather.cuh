// Schedules wgmma and wgmma_pair: the gather warpgroup, which brings the rows of q, d_o and kv into shared memory, and
// the order in which a CTA goes through its list.
#pragma once

// ---- the sweep: all CTAs read the kv rows in the same order at the same time ----
//
// With lists in row order and more d_kv_sum than L2 holds, each row should be fetched and written back once while the
// whole grid passes it. counters[0] adds up the tiles of all CTAs, each as kSweep / tiles, so that counters[0] /
// ctas_in_flight is the mean CTA's progress; a new CTA starts its list there and wraps round. Measured at 32k rows: 222
// -> 435 TFLOPS.

constexpr u32 kSweep = 4096;  // one pass over all rows

PTX_FN u32 sweep_tile(const Arguments& args, u32 counter, int tiles) {
  return ((counter / (u32)args.ctas_in_flight) & (kSweep - 1)) * (u32)tiles / kSweep;
}

// Deterministic: every list starts at its beginning, so that d_q does not depend on when its CTA ran. The sweep is kept
// by the throttle alone, which takes a CTA's place in the grid for what the counter should be by then: each list adds
// kSweep in all, an empty one too.
PTX_FN u32 counter_of_wave(const Arguments& args) {
  return ctaid_x() / (u32)args.ctas_in_flight * (kSweep * (u32)args.ctas_in_flight);
}

// What a tile adds to the counter.
PTX_FN u32 progress(int done, int tiles) {
  const u32 step = ld_shared_u32(own(Shared::sweep_step));
  return Spec::deterministic && done + 1 == tiles ? kSweep - (u32)done * step : step;
}

// Waits, a bounded number of polls, while this CTA is ahead of the grid's mean by more than args.throttle CTA-tiles.
PTX_FN void throttle(const Arguments& args, int done) {
  if (ctaid_x() + 2 * (u32)args.ctas_in_flight >= gridDim.x) return;  // the last waves have nobody to wait for
  const u32 counter_at_start = ld_shared_u32(own(Shared::sweep_counter)), step = ld_shared_u32(own(Shared::sweep_step));
  const u32 own = counter_at_start + (u32)done * step * (u32)args.ctas_in_flight;
  for (int polls = 0; polls < 64; ++polls) {
    if ((int)(own - ld_relaxed_gpu_u32(args.counters)) <= args.throttle * (int)step) return;
  }
}

// ---- gather ----

// Those between the gather and the others, by one thread. A group of kv panels is freed by the warps that read it last:
// the first by the score warps, the second by both warpgroups', the others by the gradient warps.
PTX_FN void init_barriers() {
  for (int i = 0; i < kGroups; ++i) {
    mbarrier_init(own(Shared::full + i * 8), 128);
    mbarrier_init(own(Shared::empty + i * 8), i == 1 ? 8 : 4);
  }
  mbarrier_init(own(Shared::q_ready), 128);
  mbarrier_init(own(Shared::offsets_ready), 16 * kOffsetLanes);
}

// The 64 rows of q and d_o. Eight threads take a row, 16 bytes of each panel.
PTX_FN void load_heads(const Arguments& args, const Place& place, int row0, int lane8) {
#pragma unroll 1
  for (int i = row0; i < 64; i += 16) {
    const HeadRow row = head_row(args, place, i);
    const u16* q = (const u16*)args.q + offset_of(args.q_strides, place.b, row.s, row.head) + lane8 * 8;
    const u16* d_o = (const u16*)args.d_o + offset_of(args.d_o_strides, place.b, row.s, row.head) + lane8 * 8;
    const u32 target = own(panel_offset<64>(i, lane8));
    const int bytes = row.exists ? 16 : 0;
#pragma unroll
    for (int panel = 0; panel < kQkPanels; ++panel) {
      cp_async_16_zfill(Shared::q + panel * kPanel + target, q + panel * 64, bytes);
    }
#pragma unroll
    for (int panel = 0; panel < kVPanels; ++panel) {
      cp_async_16_zfill(Shared::d_o + panel * kPanel + target, d_o + panel * 64, bytes);
    }
  }
  cp_async_mbarrier_arrive_noinc(own(Shared::q_ready));
}

// Finds where in its list this CTA starts. Lists in row order that are not swept start at places of their own, or all
// CTAs would reduce into the same rows at once.
PTX_FN void start_sweep(const Arguments& args, const Place& place, int tiles, int thread) {
  if (thread == 0 && chooses_start()) {
    const u32 counter = !args.sweep ? 0 : Spec::deterministic ? counter_of_wave(args) : ld_relaxed_gpu_u32(args.counters);
    const u32 own_place = kShared && !args.sweep ? ((u32)place.list * 0x9e3779b9u >> 16) * (u32)tiles >> 16 : 0;
    const bool fixed_place = Spec::deterministic || (kShared && !args.sweep);
    const u32 tile = fixed_place ? own_place : sweep_tile(args, counter, tiles);
    tell_start((u32)own_begin() / 64 + tile, counter, kSweep / (u32)tiles);
  }
  wait_for_start();
}

// Where in the list the tile begins that comes after `done` others.
PTX_FN int position_after(int done, int tiles, int end) {
  const u32 position = (ld_shared_u32(own(Shared::sweep_tile)) + (u32)done) * 64;
  return (int)(position < (u32)end ? position : position - (u32)tiles * 64);
}

// Which of the eight threads of a row this one is: asked anew for each tile, there is no register left to keep it in.
PTX_FN int lane_of_row() { return (int)tid_x() & 7; }

PTX_FN void gather_role(const Arguments& args, int thread) {
  const int row0 = thread >> 3, lane8 = thread & 7;  // rows row0, row0 + 16, row0 + 32, row0 + 48 of a tile
  const Place place = own_place(args);
  load_heads(args, place, row0, lane8);  // before the list is known: the longest way is that of q and d_o
  const int end = own_end(args, place), tiles = tiles_of(end - own_begin());
  if (tiles == 0) {
    if (Spec::deterministic && args.sweep && thread == 0) red_add_u32(args.counters, kSweep);
    return;
  }

  const char* kv =
      (const char*)((const u16*)args.kv + offset_of(args.kv_strides, place.b, 0, place.group)) + lane8 * 16;
  const int* list = list_of(args, place) + row0;
  const u32 limit = kShared ? 0x7fffffffu : key_limit(args, place.s);  // a shared list has been through key_limit
  const u32 target = own(Shared::kv + panel_offset<64>(row0, lane8));  // row0 + 16 i has the same swizzle
  start_sweep(args, place, tiles, thread);

  int entry[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) entry[i] = row_at(list, position_after(0, tiles, end) + i * 16, end - row0, limit);

#pragma unroll 1
  for (int done = 0; done < tiles; ++done) {
    if (args.throttle > 0) throttle(args, done);
    if (args.prefetch && lane_of_row() == 0) {
      const char* sums = sums_of(args, place);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (entry[i] >= 0) {
          cp_async_bulk_prefetch_L2(sums + (long long)row_of(entry[i]) * Spec::sum_row_bytes, Spec::sum_row_bytes);
        }
      }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      mbarrier_wait_parity(own(Shared::empty + group * 8), (done & 1) ^ 1);
      // After empty[2] both consumers have used the offsets of two tiles ago, and have waited for the last ones.
      if (group == 2 && lane_of_row() < kOffsetLanes) {
        store_row_offsets(args, place, (u32)(done & 1) * 256 + row0 * 4, entry, lane_of_row());
        mbarrier_arrive(own(Shared::offsets_ready));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = row_of(max(entry[i], 0));
        const char* source = kv + (long long)row * (int)(args.kv_strides.token * 2);  // one 32 x 32 bit product
#pragma unroll
        for (int panel = first_panel(group); panel < first_panel(group + 1); ++panel) {
          cp_async_16_zfill(target + i * (16 * 128) + panel * kPanel, source + panel * 128, entry[i] < 0 ? 0 : 16);
        }
      }
      cp_async_mbarrier_arrive_noinc(own(Shared::full + group * 8));
    }
    if (done + 1 < tiles) {
      const int position = position_after(done + 1, tiles, end);
#pragma unroll
      for (int i = 0; i < 4; ++i) entry[i] = row_at(list, position + i * 16, end - row0, limit);
    }
    if (args.sweep && thread == 0) red_add_u32(args.counters, progress(done, tiles));
  }
}
