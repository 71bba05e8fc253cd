// Schedule wgmma_pair: what the two CTAs of a cluster tell each other. In the place of wgmma_alone.cuh.
//
// Each CTA has 64 heads of a token and the whole tile of kv rows. d_kv's sums over the heads of both are to be reduced
// once: of every 64-column panel CTA 0 owns the first 32 columns and CTA 1 the others. A chunk is one CTA's part of a
// panel (panel k is chunk k of either): a CTA computes its own chunks and the peer's, sends the latter in the operand
// type, adds what it receives to the former and reduces.
//
// Sent chunks land in six slots: four in the receiver's P and dS, free from the moment that both of its warpgroups hold
// them as fragments, and two in its last kv panel, free from when d_q's products have read it until the next tile's
// rows are gathered, after chunk 4. Chunks 6, 7 and 8 take the slots of 0, 1 and 2 again. A thread receives exactly the
// accumulators that the thread of the same number sent, so a slot has no layout: 16 bytes a thread, twice.
//
//   p_open, kv_open  the peer's P and dS (all eight warps hold them), its last kv panel may be written. Once a tile
//   chunk_here[9]    a chunk has landed (4,096 bytes of st.async). Once a tile
//   slot_free[3]     the peer's four gradient warps have taken chunk 0, 1, 2
//
// An arrival at the peer may overtake loads from shared memory whose values nobody has used, and what it frees is
// overwritten: each arrival depends on the loaded values (have_arrived). PTX promises that such a circle cannot close:
// a value does not depend on itself.
#pragma once

static_assert(Spec::is_bf16 && !Spec::deterministic && Spec::head_blocks % 2 == 0, "not a problem for pairs");

constexpr int kSlots = 6, kSlotsOfP = 4, kSlotsAgain = 3;  // in P and dS the first four, of which three are used twice
constexpr u32 kSlot = 128 * 32;      // bytes: 16 accumulators of 128 threads
constexpr int kChunks = kQkPanels;   // that a CTA sends, and as many that it owns
static_assert(kSlotsOfP * kSlot == 2 * kPanel && (kSlots - kSlotsOfP) * kSlot == kPanel, "slots take the place of panels");
static_assert(kChunks >= kSlots && kChunks <= kSlots + kSlotsAgain, "each slot is used, some of them twice");

struct PairShared {
  static constexpr u32 start_told = Shared::end;         // barrier: where to start the list is known
  static constexpr u32 p_open = start_told + 8;          // barriers, as above
  static constexpr u32 kv_open = p_open + 8;
  static constexpr u32 chunk_here = kv_open + 8;
  static constexpr u32 slot_free = chunk_here + kChunks * 8;
  static constexpr u32 end = slot_free + kSlotsAgain * 8;
};
static_assert(PairShared::end - kBase <= Spec::shared_bytes, "the launch asks for less shared memory than the kernel uses");
static_assert(Shared::sweep_tile % 16 == 0 && Shared::sweep_counter == Shared::sweep_tile + 4 &&
                  Shared::sweep_step == Shared::sweep_tile + 8 && Shared::block == Shared::sweep_tile + 16,
              "the start of a list is sent as 16 bytes");

// The address in this CTA of what lies there, its rank is part of it; and in the other CTA. mapa says the same, which
// is checked when the kernel begins.
constexpr u32 kPeer = 1 << 24;
PTX_FN u32 own(u32 address) { return address + cluster_ctarank() * kPeer; }
PTX_FN u32 peers(u32 address) { return own(address) ^ kPeer; }
PTX_FN bool are_as_mapa_says(u32 base) {
  return base == own(kBase) && mapa_shared_cluster(base, cluster_ctarank() ^ 1) == peers(kBase);
}

// kv panels that are filled and freed together: three at a time, the last one alone.
constexpr int kGroups = 4;
PTX_FN constexpr int first_panel(int group) { return group < 3 ? group * 3 : group == 3 ? kQkPanels - 1 : kQkPanels; }

// ---- where both start their list: CTA 0 asks the sweep's counter ----

PTX_FN bool chooses_start() { return cluster_ctarank() == 0; }
PTX_FN void tell_start(u32 tile, u32 counter, u32 step) {
  st_async_v4_u32(own(Shared::sweep_tile), tile, counter, step, 0, own(PairShared::start_told));
  st_async_v4_u32(peers(Shared::sweep_tile), tile, counter, step, 0, peers(PairShared::start_told));
}
PTX_FN void wait_for_start() { mbarrier_wait_parity_cluster(own(PairShared::start_told), 0); }

// ---- chunks ----

// By one thread, before the CTAs may touch each other.
PTX_FN void init_exchange() {
  mbarrier_init(own(PairShared::start_told), 1);
  mbarrier_init(own(PairShared::p_open), 8);
  mbarrier_init(own(PairShared::kv_open), 4);
  for (int i = 0; i < kChunks; ++i) mbarrier_init(own(PairShared::chunk_here + i * 8), 1);
  for (int i = 0; i < kSlotsAgain; ++i) mbarrier_init(own(PairShared::slot_free + i * 8), 4);
  fence_mbarrier_init();
  mbarrier_arrive_expect_tx(own(PairShared::start_told), 16);
  for (int i = 0; i < kChunks; ++i) mbarrier_arrive_expect_tx(own(PairShared::chunk_here + i * 8), kSlot);
}

// Operands of 32 columns of a panel, those that CTA `owner` owns: k counts 16 heads.
PTX_FN u64 q_half(int panel, u32 owner, int k) { return mn_major(Shared::q + panel * kPanel + k * 2048, owner * 4); }
PTX_FN u64 d_o_half(int panel, u32 owner, int k) { return mn_major(Shared::d_o + panel * kPanel + k * 2048, owner * 4); }

// True; but the answer is not known before each lane's `loaded` is there. (Loaded pairs of operands that cvt.rn wrote
// are never all ones.)
PTX_FN bool have_arrived(u32 loaded) { return __all_sync(0xffffffffu, loaded != 0xffffffffu); }

PTX_FN u32 and_of(const u32 (&fragments)[4][4]) {
  return fragments[0][0] & fragments[1][0] & fragments[2][0] & fragments[3][0];
}

// P^T and dS^T as A fragments: ldmatrix.trans of P[head][kv row].
PTX_FN void load_transposed(u32 (&p)[4][4], u32 (&ds)[4][4], int thread) {
  const int warp = thread >> 5, lane = thread & 31;
  const u32 source = own(Shared::p + panel_offset<64>((lane & 7) + ((lane >> 4) << 3), warp * 2 + ((lane >> 3) & 1)));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    ldmatrix_x4_trans(ds[k], source + kPanel + k * 2048);
    ldmatrix_x4_trans(p[k], source + k * 2048);
  }
}

// A warp's fragments of P and dS are in registers; `loaded`: a register of each load, and-ed.
PTX_FN void open_p(u32 loaded, bool first_lane) {
  const bool arrived = have_arrived(loaded);
  __syncwarp();
  if (arrived && first_lane) mbarrier_arrive_cluster(peers(PairShared::p_open));
}

// Chunks 3 and 4, which come in the middle, lie in the kv panel.
PTX_FN constexpr int slot_of(int chunk) {
  return chunk < 3 ? chunk : chunk < 5 ? chunk + 1 : chunk == 5 ? 3 : chunk - kSlots;
}
PTX_FN constexpr u32 address_of(int slot) {
  return slot < kSlotsOfP ? Shared::p + slot * kSlot : Shared::kv + (kQkPanels - 1) * kPanel + (slot - kSlotsOfP) * kSlot;
}
PTX_FN constexpr bool is_used_again(int chunk) { return chunk + kSlots < kChunks; }  // its slot, in this tile
constexpr int kLastOfKv = 4;  // the chunk behind which the kv panel may be filled again

template <int Chunk>
PTX_FN void send_chunk(const float (&d)[16], int tile, int thread) {
  constexpr int slot = slot_of(Chunk);
  u32 packed[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) packed[i] = pack(d[2 * i], d[2 * i + 1]);
  mbarrier_wait_parity_cluster(own(Chunk >= kSlots    ? PairShared::slot_free + slot * 8
                                   : slot < kSlotsOfP ? PairShared::p_open
                                                      : PairShared::kv_open),
                               tile & 1);
  const u32 target = peers(address_of(slot) + thread * 16), barrier = peers(PairShared::chunk_here + Chunk * 8);
  st_async_v4_u32(target, packed[0], packed[1], packed[2], packed[3], barrier);
  st_async_v4_u32(target + kSlot / 2, packed[4], packed[5], packed[6], packed[7], barrier);
}

template <int Chunk>
PTX_FN void receive_chunk(u32 (&received)[2][4], int tile, int thread) {
  const u32 barrier = own(PairShared::chunk_here + Chunk * 8), source = own(address_of(slot_of(Chunk)) + thread * 16);
  mbarrier_wait_parity_cluster(barrier, tile & 1);
  ld_shared_v4_u32(received[0], source);
  ld_shared_v4_u32(received[1], source + kSlot / 2);
  if (thread == 0) mbarrier_arrive_expect_tx(barrier, kSlot);
}

// The place of a received chunk may be written again, where somebody waits for it.
template <int Chunk>
PTX_FN void free_slot(const u32 (&received)[2][4], bool first_lane) {
  if (!is_used_again(Chunk) && Chunk != kLastOfKv) return;
  const bool arrived = have_arrived(received[0][0] & received[1][0]);
  __syncwarp();  // a vote orders values; this orders the lanes' loads before the arrival
  if (!arrived || !first_lane) return;
  if (Chunk == kLastOfKv) {
    mbarrier_arrive(own(Shared::empty + (kGroups - 1) * 8));
  } else {
    mbarrier_arrive_cluster(peers(PairShared::slot_free + Chunk * 8));
  }
}

// All that this warpgroup takes from where P and dS lie has been taken.
PTX_FN void give_back_p(const u32 (&last)[2][4]) {
  if (have_arrived(last[0][0] & last[1][0])) bar_arrive(P_FREE, 256);
}

PTX_FN void add_received(float (&d)[16], const u32 (&received)[2][4]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    d[2 * i] += unpack_low(received[i / 4][i % 4]);
    d[2 * i + 1] += unpack_high(received[i / 4][i % 4]);
  }
}
