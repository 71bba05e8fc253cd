// The emulator's clusters: CTAs that run together, the shared memory of peers, st.async, and loads that an
// arrival at a peer may overtake.
#include <array>
#include <string>

#include "emulator/global_memory.h"
#include "emulator/host_compiler.h"
#include "emulator/places.h"
#include "generator/templates.h"
#include "small_kernels.h"

using namespace smla_test;

namespace {

constexpr u32 kData = 64;  // offsets in a CTA's shared memory, behind a few mbarriers

u32 rank() {
  return ptx().thread->cluster_rank;
}
u32 own(u32 offset) {
  return rank() << 24 | (kBase + offset);
}
u32 peer(u32 offset) {
  return ptx().mapa(own(offset), rank() ^ 1);
}
void cluster_sync() {
  ptx().cluster_arrive();
  ptx().cluster_wait();
}

// Two CTAs of `warps` warps with mbarriers of one arrival at the offsets 0, 8, 16 ..., which both know of.
Grid pair(u32 warps) {
  return {2, warps * 32, 8192, 2};
}
void init_and_sync(int mbarriers) {
  for (int i = 0; i < mbarriers && thread() == 0; ++i) ptx().mbarrier_init(own(static_cast<u32>(i) * 8), 1);
  cluster_sync();
}

// 16 bytes into the peer, counted by its mbarrier at the offset `barrier`.
void send(u32 offset, u32 value, u32 barrier) {
  const std::array<u32, 4> values = {value, value, value, value};
  ptx().st_async(peer(offset), values.data(), peer(barrier));
}

void use() {
  ptx().all(~0u, 1);
}

// The first finding's text of a kernel that has one.
std::string text_of(const Grid& grid, const std::function<void()>& kernel) {
  require_emulator();
  Report report;
  launch(grid, {.seed = 1}, kernel, report);
  REQUIRE(!report.findings.empty());
  return report.findings[0].text;
}

}  // namespace

TEST_CASE("CTAs of a cluster run at the same time and see what each stored in the other") {
  std::array<u32, 8> got = {};
  const auto exchange = [&] {
    cluster_sync();
    if (thread() == 0) ptx().st_shared_cluster(peer(kData), 100 + ptx().thread->block_index.x);
    cluster_sync();
    if (thread() == 32) got[ptx().thread->block_index.x] = load(own(kData));
  };
  CHECK(findings_of({8, 64, 256, 2}, exchange) == Kinds{});
  for (u32 cta = 0; cta < 8; ++cta) CHECK(got[cta] == 100 + (cta ^ 1));

  Report report;
  launch({8, 64, 256, 2}, {.virtual_sms = 1}, exchange, report);
  CHECK(report.clean());
  CHECK(report.ctas == 8);
}

TEST_CASE("A grid that is no multiple of the cluster is refused, and a cluster of too many warps") {
  require_emulator();
  Report report;
  CHECK_THROWS_WITH(launch(
                        {3, 32, 0, 2}, {}, [] {}, report),
                    contains("3 CTAs is no multiple of a cluster of 2"));
  CHECK_THROWS_WITH(launch(
                        {4, 512, 0, 4}, {}, [] {}, report),
                    contains("not 4 of 512"));
}

TEST_CASE("A peer's memory is touched only between a first and a last barrier of the cluster") {
  CHECK(findings_of(pair(1), [] {
          if (thread() == 0) ptx().st_shared_cluster(peer(kData), 1);
          cluster_sync();
        }) == Kinds{"peer-not-started"});
  CHECK(findings_of(pair(1), [] {
          cluster_sync();
          if (thread() == 0) ptx().st_shared_cluster(peer(kData), 1);
        }) == Kinds{"peer-exited"});
  CHECK(findings_of(pair(1), [] {
          init_and_sync(1);
          if (thread() == 0) ptx().mbarrier_arrive_cluster(peer(0));
        }) == Kinds{"peer-exited"});
  CHECK(findings_of(pair(1), [] {
          init_and_sync(1);
          if (thread() == 0) send(kData, 1, 0);
          cluster_sync();  // which does not wait for what is on its way
        }) == Kinds{"peer-exited"});
}

TEST_CASE("Threads that have left are not waited for at the cluster's barrier") {
  CHECK(findings_of(pair(2), [] {
          if (thread() >= 32) return;
          cluster_sync();
          cluster_sync();
        }) == Kinds{});
}

TEST_CASE("An address of shared::cta without the own rank names another CTA") {
  const auto offset = [] { return kData + static_cast<u32>(thread()) * 4; };
  CHECK(findings_of(pair(1), [&] { store(kBase + offset(), 1); }) == Kinds{"shared-rank"});
  CHECK(findings_of(pair(1), [&] { store(own(offset()), 1); }) == Kinds{});
  CHECK(findings_of(pair(1), [] { ptx().st_shared_cluster(2u << 24 | kBase, 1); }) == Kinds{"shared-oob"});
}

TEST_CASE("The cluster's barrier orders by its wait, and arrive and wait take turns") {
  const auto kernel = [](bool wait_first) {
    return [wait_first] {
      cluster_sync();
      if (thread() == 0) ptx().st_shared_cluster(peer(kData), 1);
      ptx().cluster_arrive();
      if (wait_first) ptx().cluster_wait();
      load(own(kData));
      if (!wait_first) ptx().cluster_wait();
    };
  };
  CHECK(findings_of(pair(1), kernel(true)) == Kinds{});
  CHECK(findings_of(pair(1), kernel(false)).count("race-RAW") == 1);
  CHECK(findings_of(pair(1), [] {
          ptx().cluster_arrive();
          ptx().cluster_arrive();
        }) == Kinds{"cluster-barrier"});
  CHECK(findings_of(pair(1), [] { ptx().cluster_wait(); }) == Kinds{"cluster-barrier"});
}

TEST_CASE("What st.async brings is read after its mbarrier's phase, which waits for the bytes") {
  std::array<u32, 64> got = {};
  const auto kernel = [&got](bool wait) {
    return [&got, wait] {
      init_and_sync(1);
      if (thread() == 0) ptx().mbarrier_arrive_expect_tx(own(0), 512);
      const u32 lane = static_cast<u32>(thread());
      send(kData + lane * 16, 1000 * rank() + lane, 0);
      if (wait) ptx().mbarrier_wait_parity(own(0), 0);
      got[rank() * 32 + lane] = load(own(kData + lane * 16));
      if (!wait) ptx().mbarrier_wait_parity(own(0), 0);
      cluster_sync();
    };
  };
  CHECK(findings_of(pair(1), kernel(true)) == Kinds{});
  for (u32 lane = 0; lane < 32; ++lane) {
    CHECK(got[lane] == 1000 + lane);
    CHECK(got[32 + lane] == lane);
  }
  const Kinds kinds = findings_of(pair(1), kernel(false));
  CHECK(kinds.count("uninitialised") + kinds.count("read-before-st.async") > 0);
}

TEST_CASE("A barrier's phase says nothing of what another barrier counts") {
  CHECK(findings_of(pair(1), [] {
          init_and_sync(2);
          if (thread() == 0) {
            ptx().mbarrier_arrive_expect_tx(own(0), 16);
            ptx().mbarrier_arrive_expect_tx(own(8), 16);
            send(kData, 1, 0);
            send(kData + 16, 2, 8);
            ptx().mbarrier_wait_parity(own(0), 0);
            load(own(kData));
            load(own(kData + 16));
            ptx().mbarrier_wait_parity(own(8), 0);
          }
          cluster_sync();
        }).count("race-RAW") == 1);
}

TEST_CASE("More bytes than a phase expects are reported, and fewer are a deadlock that says how many") {
  const auto kernel = [](u32 expected) {
    return [expected] {
      init_and_sync(1);
      if (thread() == 0) send(kData, 1, 0);
      if (thread() == 0) send(kData + 16, 1, 0);
      ptx().syncwarp(~0u);
      for (int i = 0; i < 64; ++i) use();  // time for the stores to land
      if (thread() == 0) ptx().mbarrier_arrive_expect_tx(own(0), expected);
      ptx().mbarrier_wait_parity(own(0), 0);
      cluster_sync();
    };
  };
  CHECK(findings_of(pair(1), kernel(32)) == Kinds{});
  CHECK(findings_of(pair(1), kernel(16)).count("mbarrier-bytes") == 1);
  const std::string text = text_of(pair(1), kernel(48));
  CHECK_THAT(text,
             contains("mbarrier at shared address 0x1000400 (byte 0 of CTA 1's), phase 0, 0 of 1 arrivals "
                      "missing, 16 bytes missing, some from peers"));
  CHECK(findings_of(pair(1), [] {
          init_and_sync(1);
          if (thread() == 0) ptx().mbarrier_arrive_expect_tx(own(0), 16);
          if (thread() == 0) ptx().mbarrier_arrive(own(0));
          cluster_sync();
        }) == Kinds{"mbarrier-count"});
}

TEST_CASE("A deadlock at the cluster's barrier names who has not come") {
  const std::string text = text_of(pair(1), [] {
    init_and_sync(1);
    if (rank() == 0) ptx().mbarrier_wait_parity(own(0), 0);
    cluster_sync();
  });
  CHECK_THAT(text, contains("CTA 1 warp  0: 32 lanes in barrier.cluster.wait for warp 0 of CTA 0"));
  CHECK_THAT(text, contains("CTA 0 warp  0: 32 lanes in mbarrier.try_wait with parity 0"));
}

TEST_CASE("A ring of slots in the peer, filled by st.async and given back by arrivals, is clean") {
  constexpr u32 kSlots = 2, kChunks = 9, kFull = 0, kFree = 16;  // offsets of mbarriers, one a slot
  const auto kernel = [](bool wait_for_slot) {
    return [wait_for_slot] {
      init_and_sync(4);
      const u32 lane = static_cast<u32>(thread()) % 32;
      if (thread() == 0) {
        for (u32 slot = 0; slot < kSlots; ++slot) ptx().mbarrier_arrive_expect_tx(own(kFull + slot * 8), 512);
      }
      cluster_sync();
      for (u32 chunk = 0; chunk < kChunks; ++chunk) {
        const u32 slot = chunk % kSlots, round = chunk / kSlots;
        const u32 at = kData + slot * 512 + lane * 16;
        if (thread() < 32) {
          if (wait_for_slot && round > 0)
            ptx().mbarrier_wait_parity(own(kFree + slot * 8), static_cast<int>((round + 1) % 2));
          send(at, chunk, kFull + slot * 8);
        } else {
          ptx().mbarrier_wait_parity(own(kFull + slot * 8), static_cast<int>(round % 2));
          const u32 value = load(own(at));
          if (lane == 0) ptx().mbarrier_arrive_expect_tx(own(kFull + slot * 8), 512);
          if (ptx().all(~0u, value == chunk) && lane == 0 && chunk + kSlots < kChunks)
            ptx().mbarrier_arrive_cluster(peer(kFree + slot * 8));
        }
      }
      cluster_sync();
    };
  };
  CHECK(findings_of(pair(2), kernel(true)) == Kinds{});
  CHECK(findings_of(pair(2), kernel(false)) != Kinds{});
}

TEST_CASE("An arrival at a peer overtakes loads whose values nobody has used, as the H200 was seen to do") {
  // The fragments of warp 0 or 1 are loaded from where the peer stores next; warp 0 tells the peer that it
  // may.
  constexpr u32 kFragments = 1024, kRight = 2048;
  enum class Use { none, vote, shuffle, named_barrier, wgmma };
  struct How {
    Use use;
    u32 loading_warp = 0;
  };
  const auto kernel = [](How how) {
    return [how] {
      init_and_sync(2);
      const u32 lane = static_cast<u32>(thread()) % 32, warp = static_cast<u32>(thread()) / 32;
      for (u32 i = 0; i < 2; ++i) store(own(kFragments + (i * 128 + warp * 32 + lane) * 4), 0);
      for (u32 i = 0; i < 8; ++i) store(own(kRight + (i * 128 + warp * 32 + lane) * 4), 0);
      if (thread() == 0) ptx().mbarrier_arrive_expect_tx(own(8), 16);
      ptx().fence_proxy_async();
      ptx().bar(1, 128, 1);
      u32 fragment[4] = {};
      float d[16] = {};
      if (warp == how.loading_warp) {
        ptx().ldmatrix(fragment, own(kFragments + lane * 16), 0);
        if (how.use == Use::vote) ptx().all(~0u, fragment[0] != ~0u);
        if (how.use == Use::shuffle) ptx().shuffle(~0u, fragment[0], kShuffleXor, 1);
      }
      if (how.use == Use::wgmma) {
        ptx().wgmma_fence();
        ptx().wgmma(d, 32, fragment, 0, 1ull << 62 | 64ull << 32 | (kBase + kRight) >> 4, 0, 0, 0, 1);
        ptx().wgmma_commit_group();
        ptx().wgmma_wait_group(0);
      }
      if (how.use == Use::named_barrier || how.loading_warp != 0 || how.use == Use::wgmma)
        ptx().bar(2, 128, 1);
      if (thread() == 0) {
        ptx().mbarrier_arrive_cluster(peer(0));
        ptx().mbarrier_wait_parity(own(0), 0);
        send(kFragments, 7, 8);
        ptx().mbarrier_wait_parity(own(8), 0);
      }
      cluster_sync();
    };
  };
  CHECK(findings_of(pair(4), kernel({Use::none})) == Kinds{"race-WAR"});
  CHECK(findings_of(pair(4), kernel({Use::vote})) == Kinds{});
  CHECK(findings_of(pair(4), kernel({Use::shuffle})) == Kinds{});
  CHECK(findings_of(pair(4), kernel({Use::named_barrier})) == Kinds{"race-WAR"});
  CHECK(findings_of(pair(4), kernel({Use::none, 1})) == Kinds{"race-WAR"});
  CHECK(findings_of(pair(4), kernel({Use::vote, 1})) == Kinds{});
  CHECK(findings_of(pair(4), kernel({Use::wgmma})) == Kinds{});
  CHECK_THAT(text_of(pair(4), kernel({Use::none})),
             contains("is not ordered after the read of warp 0 of CTA") &&
                 contains(": nobody used what it read before the arrival, which may overtake the load"));
}

namespace {

// Each CTA sends its numbers to the peer twice, into the same place, which the peer gives back in between.
constexpr const char* kTwice = R"(struct Pair {
  static constexpr int ctas = 2;
};
PTX_KERNEL_CLUSTER(Pair::ctas, 32, 1) twice(u32* out) {
  PTX_DYNAMIC_SHARED(memory);
  const u32 full = shared_address(memory), free = full + 8, data = full + 16, rank = cluster_ctarank();
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    mbarrier_init(free, 1);
    fence_mbarrier_init();
  }
  barrier_cluster_arrive_release();
  barrier_cluster_wait_acquire();
  const u32 peer = mapa_shared_cluster(full, rank ^ 1), lane = threadIdx.x;
  if (lane == 0) st_shared_cluster_u32(peer + 528, 7 + rank);
  for (u32 round = 0; round < 2; ++round) {
    if (lane == 0) mbarrier_arrive_expect_tx(full, 512);
    if (round > 0) mbarrier_wait_parity_cluster(free, 0);
    const u32 x = 100 * rank + 10 * round;
    st_async_v4_u32(peer + 16 + lane * 16, x, x + 1, x + 2, x + 3, peer);
    mbarrier_wait_parity_cluster(full, round);
    u32 r[4];
    ld_shared_v4_u32(r, data + lane * 16);
    if (__all_sync(~0u, r[0] != ~0u) && lane == 0 && round == 0) mbarrier_arrive_cluster(peer + 8);
    st_global_v4_u32(out + (blockIdx.x * 64 + round * 32 + lane) * 4, r[0], r[1], r[2], r[3]);
  }
  barrier_cluster_arrive_release();
  barrier_cluster_wait_acquire();
  if (lane == 0) st_global_u32(out + 128 * 4 + rank, ld_shared_u32(full + 528));
}
)";

KernelSource source_of(const std::string& kernel) {
  KernelSource source;
  source.name = "twice";
  source.parts = {{"ptx.cuh", template_text("ptx.cuh")}, {"entries", kernel}};
  return source;
}

// Runs it once and leaves what it wrote in `out`.
Report run(const KernelSource& source, std::uint64_t seed, GlobalBuffer& out) {
  const auto kernels = compile_for_host(source);
  const auto entry = reinterpret_cast<void (*)(void*)>(kernels->entry("twice"));
  Report report;
  launch(
      {2, 32, 544, kernels->cluster_size("twice")}, {.seed = seed}, [&] { entry(out.data()); }, report);
  resolve_places(report, source.text());
  return report;
}

}  // namespace

TEST_CASE("A kernel of clusters runs from its text, which alone says how many CTAs they have") {
  require_host_compiler();
  GlobalBuffer out((128 * 4 + 2) * 4, "out", GlobalBuffer::Access::read_write);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Report report = run(source_of(kTwice), seed, out);
    INFO(emulator::describe(report));
    REQUIRE(report.clean());
    const u32* values = static_cast<const u32*>(out.data());
    for (u32 i = 0; i < 512; ++i) {
      INFO(i);
      CHECK(values[i] == 100 * (1 - i / 256) + 10 * (i / 128 % 2) + i % 4);
    }
    CHECK(values[512] == 8);
    CHECK(values[513] == 7);
  }
}

TEST_CASE(
    "An arrival that no vote on the loaded values precedes is found in the text, with the line of the "
    "store") {
  require_host_compiler();
  GlobalBuffer out((128 * 4 + 2) * 4, "out", GlobalBuffer::Access::read_write);
  std::string text = kTwice;
  const std::string vote = "if (__all_sync(~0u, r[0] != ~0u) && ";
  text.replace(text.find(vote), vote.size(), "__syncwarp(); if (");
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Report report = run(source_of(text), seed, out);
    REQUIRE(report.has("race-WAR"));
    CHECK_THAT(report.findings[0].text,
               contains("`st_async_v4_u32(peer + 16 + lane * 16, x, x + 1, x + 2, x + 3, peer);`"));
    CHECK_THAT(report.findings[0].text, contains("the arrival, which may overtake the load"));
  }
}
