#include "config/wgmma.h"

#include "base/error.h"

namespace smla::core {
namespace {

constexpr int kBlockH = 64;     // the M of wgmma
constexpr int kBlockSize = 64;  // a tile of 64 x 64 scores; q, d_o and one tile of kv fill the shared memory
constexpr int kStages =
    1;  // released in three groups of panels, so that the gather runs ahead within the tile
constexpr int kThreads =
    384;  // score + gradient + gather warpgroup: 240 * 256 + 24 * 128 registers are all of an SM's

constexpr int kOffsetsAndBarriers = 1024;  // 2 x 64 row offsets, 64 deltas, 8 barriers, the sweep's start

void check_forced(std::optional<int> value, int only, std::string_view field, std::string_view reason) {
  if (value && *value != only) {
    fail(Status::not_supported, "{} = {} (config.{}): wgmma takes {} alone, {}; the nearest that works is {}",
         field, *value, field, only, reason, only);
  }
}

}  // namespace

int wgmma_shared_bytes(const Problem& problem) {
  const int q_and_d_o = kBlockH * (problem.d_qk() + problem.d_v);
  const int kv = kStages * kBlockSize * problem.d_qk();
  const int p_and_ds = 2 * kBlockH * kBlockSize;
  return 2 * (q_and_d_o + kv + p_and_ds) + kOffsetsAndBarriers;
}

Choice choose_wgmma(const Problem& problem, const Arch& arch, const ConfigRequest& request) {
  if (!has_wgmma(arch)) {
    fail(Status::not_supported,
         "schedule = wgmma needs sm_90a and the arch is {}; the nearest that works is cp_async", name(arch));
  }
  if (problem.heads_per_group() % kBlockH != 0) {
    fail(Status::not_supported,
         "heads / kv_groups = {} is not a multiple of 64 (problem.heads), which schedule wgmma needs; the "
         "nearest that "
         "works is cp_async, or {} heads a group",
         problem.heads_per_group(), (problem.heads_per_group() / kBlockH + 1) * kBlockH);
  }
  check_forced(request.block_h, kBlockH, "block_h", "the M of wgmma");
  check_forced(request.block_size, kBlockSize, "block_size", "kv rows of a tile");
  check_forced(request.stages, kStages, "stages", "all that fits the shared memory");
  check_forced(request.threads, kThreads, "threads", "three warpgroups");

  Choice choice{.config = {.schedule = Schedule::wgmma,
                           .block_h = kBlockH,
                           .block_size = kBlockSize,
                           .stages = kStages,
                           .threads = kThreads,
                           .vector_reductions = true},
                .why = {}};
  choice.why = {
      fmt::format("block_h = 64: the M of wgmma, {} block(s) a kv group",
                  head_blocks(problem, choice.config)),
      "block_size = 64: one 64 x 64 tile of scores a step",
      "stages = 1: q, d_o and one tile of kv fill the shared memory; the tile is released in three groups of "
      "panels",
      "threads = 384: a score, a gradient and a gather warpgroup",
      fmt::format("shared memory = {} of {} bytes", wgmma_shared_bytes(problem), shared_memory_limit(arch)),
      "d_kv is summed by red.add.v4.f32"};
  return choice;
}

ScheduleFacts wgmma_facts() {
  return {
      .schedule = Schedule::wgmma,
      .archs = "sm_90a",
      .heads = "heads / kv_groups a multiple of 64",
      .d_v = "512",
      .d_tail = "64, 0",
      .dtypes = "bf16, fp16",
      .block_h = "64",
      .block_size = "64",
      .stages = "1",
      .threads = "384",
      .note =
          "one CTA a token and 64 heads, three warpgroups; long contexts are swept in row order by all CTAs "
          "together (list pre-pass)"};
}

}  // namespace smla::core
