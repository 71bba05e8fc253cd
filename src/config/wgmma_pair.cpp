#include "config/wgmma_pair.h"

#include "base/error.h"
#include "config/wgmma.h"

namespace smla::core {

Choice choose_wgmma_pair(const Problem& problem, const Arch& arch, const ConfigRequest& request) {
  constexpr std::string_view kNearest = "the nearest that works is wgmma";
  if (!has_wgmma(arch)) {
    fail(Status::not_supported,
         "schedule = wgmma_pair needs sm_90a and the arch is {}; the nearest that works is cp_async",
         name(arch));
  }
  if (problem.dtype != DType::bf16) {
    fail(Status::not_supported,
         "dtype = {}: wgmma_pair exchanges sums over 64 heads in the operand type, which needs bf16's range; "
         "{}",
         name(problem.dtype), kNearest);
  }
  if (problem.deterministic || problem.accumulate != Accumulate::fp32) {
    fail(Status::not_supported, "{}: wgmma_pair sums d_kv in fp32 alone; {}",
         problem.deterministic ? "deterministic = true" : "accumulate = partial", kNearest);
  }
  check_wgmma_request(request, "wgmma_pair");
  if (request.block_h && *request.block_h != kWgmmaRows) {
    fail(Status::not_supported, "block_h = {} (config.block_h): wgmma_pair takes 64 heads a CTA; {}",
         *request.block_h, kNearest);
  }
  Choice choice{.config = wgmma_config(Schedule::wgmma_pair, kWgmmaRows), .why = {}};
  const int blocks = head_blocks(problem, choice.config);
  if (blocks % 2 != 0) {
    fail(
        Status::not_supported,
        "heads / kv_groups = {}: wgmma_pair needs an even number of blocks of 64 heads and this makes {}; {}",
        problem.heads_per_group(), blocks, kNearest);
  }
  choice.why = {
      fmt::format(
          "two CTAs a cluster: {} blocks of 64 heads a kv group, each pair reduces a row of d_kv once",
          blocks),
      "block_size = 64, stages = 1, threads = 384: those of wgmma",
      fmt::format("shared memory = {} of {} bytes", wgmma_shared_bytes(problem), shared_memory_limit(arch)),
      "d_kv is summed by red.add.v4.f32, the peer's part of a tile comes as bf16"};
  return choice;
}

}  // namespace smla::core
