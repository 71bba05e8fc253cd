#include "config/wgmma.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace smla::core {
namespace {

constexpr int kSmallestBlockH = 8;  // 8 tokens a block: a byte of a list's entry names them
constexpr int kBlockSize = 64;  // a tile of 64 x 64 scores; q, d_o and one tile of kv fill the shared memory
constexpr int kStages =
    1;  // released in three groups of panels, so that the gather runs ahead within the tile
constexpr int kThreads =
    384;  // score + gradient + gather warpgroup: 240 * 256 + 24 * 128 registers are all of an SM's

constexpr int kOffsetsAndBarriers =
    1024;                              // 2 x 64 row offsets, 64 deltas, 8 or 25 barriers, the sweep's start
constexpr int kRowCodes = 2 * 64 * 4;  // exponents of rows of integer sums

void check_forced(std::optional<int> value, int only, std::string_view field, std::string_view reason,
                  std::string_view schedule) {
  if (value && *value != only) {
    fail(Status::not_supported, "{} = {} (config.{}): {} takes {} alone, {}; the nearest that works is {}",
         field, *value, field, schedule, only, reason, only);
  }
}

// Up to 32 heads: as many neighbouring tokens a CTA as fill its 64 rows. d_kv is bound by reductions, one a
// row of a CTA's list, and the union of the tokens' lists is shorter than their sum: 4 tokens of 16 heads
// with random lists of 2,048 of 4,096 rows need 3,840 instead of 8,192, and no overlap at all costs no more
// than a CTA a token would.
int block_h_of(int heads) {
  return std::clamp(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(heads, 1)))),
                    kSmallestBlockH, kWgmmaRows);
}

}  // namespace

void check_wgmma_request(const ConfigRequest& request, std::string_view schedule) {
  check_forced(request.block_size, kBlockSize, "block_size", "kv rows of a tile", schedule);
  check_forced(request.stages, kStages, "stages", "all that fits the shared memory", schedule);
  check_forced(request.threads, kThreads, "threads", "three warpgroups", schedule);
}

Config wgmma_config(Schedule schedule, int block_h) {
  return {.schedule = schedule,
          .block_h = block_h,
          .block_size = kBlockSize,
          .stages = kStages,
          .threads = kThreads,
          .vector_reductions = true};
}

int wgmma_shared_bytes(const Problem& problem) {
  const int q_and_d_o = kWgmmaRows * (problem.d_qk() + problem.d_v);
  const int kv = kStages * kBlockSize * problem.d_qk();
  const int p_and_ds = 2 * kWgmmaRows * kBlockSize;
  return 2 * (q_and_d_o + kv + p_and_ds) + kOffsetsAndBarriers + (problem.deterministic ? kRowCodes : 0);
}

Choice choose_wgmma(const Problem& problem, const Arch& arch, const ConfigRequest& request) {
  if (!has_wgmma(arch)) {
    fail(Status::not_supported,
         "schedule = wgmma needs sm_90a and the arch is {}; the nearest that works is cp_async", name(arch));
  }
  const int block_h = request.block_h.value_or(block_h_of(problem.heads_per_group()));
  if (block_h < kSmallestBlockH || block_h > kWgmmaRows || !std::has_single_bit(unsigned(block_h))) {
    fail(Status::not_supported,
         "block_h = {} (config.block_h): wgmma takes 8, 16, 32 and 64, with 64 / block_h tokens a block; the "
         "nearest "
         "that works is {}",
         block_h, block_h_of(block_h));
  }
  check_wgmma_request(request, "wgmma");

  Choice choice{.config = wgmma_config(Schedule::wgmma, block_h), .why = {}};
  choice.why = {
      fmt::format("block_h = {}: the M of wgmma is 64 rows, {} token(s) of {} head block(s) a kv group",
                  block_h, kWgmmaRows / block_h, head_blocks(problem, choice.config)),
      "block_size = 64: one 64 x 64 tile of scores a step",
      "stages = 1: q, d_o and one tile of kv fill the shared memory; the tile is released in three groups of "
      "panels",
      "threads = 384: a score, a gradient and a gather warpgroup",
      fmt::format("shared memory = {} of {} bytes", wgmma_shared_bytes(problem), shared_memory_limit(arch)),
      problem.deterministic                       ? "d_kv is summed in integers by red.add.u64"
      : problem.accumulate == Accumulate::partial ? "d_kv is summed over groups of tokens by red.add.v4.f16x2"
                                                  : "d_kv is summed by red.add.v4.f32"};
  return choice;
}

}  // namespace smla::core
