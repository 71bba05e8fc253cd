#include "config/config.h"

#include <algorithm>

#include "base/error.h"
#include "config/cp_async.h"
#include "config/wgmma.h"
#include "config/wgmma_pair.h"

namespace smla::core {
namespace {

Choice choose(Schedule schedule, const Problem& problem, const Arch& arch, const ConfigRequest& request) {
  switch (schedule) {
    case Schedule::wgmma:
      return choose_wgmma(problem, arch, request);
    case Schedule::wgmma_pair:
      return choose_wgmma_pair(problem, arch, request);
    case Schedule::cp_async:
      break;
  }
  return choose_cp_async(problem, arch, request);
}

// Why `schedule` cannot serve, or nothing when it can.
std::optional<std::string> obstacle(Schedule schedule, const Problem& problem, const Arch& arch,
                                    const ConfigRequest& request) {
  try {
    (void)choose(schedule, problem, arch, request);
    return std::nullopt;
  } catch (const Error& error) {
    return std::string(error.what()).substr(std::string_view("smla: ").size());
  }
}

}  // namespace

Choice choose_config(const Problem& problem, const Arch& arch, const ConfigRequest& request, const Limits&) {
  validate(problem);
  if (request.schedule) return choose(*request.schedule, problem, arch, request);

  // 4k tokens, topk 2048 on an H200, ms: 64 heads: wgmma 6.5, the structure of cp_async 14; 16 heads: 7.6 by
  // cp_async, whose reductions are those of one token a CTA.
  if (!obstacle(Schedule::wgmma_pair, problem, arch, request)) {
    Choice choice = choose_wgmma_pair(problem, arch, request);
    choice.why.insert(
        choice.why.begin(),
        fmt::format("schedule = wgmma_pair: {} has it, and a token's heads fill pairs of CTAs", name(arch)));
    return choice;
  }
  const auto no_wgmma = obstacle(Schedule::wgmma, problem, arch, request);
  if (!no_wgmma) {
    Choice choice = choose_wgmma(problem, arch, request);
    choice.why.insert(choice.why.begin(), fmt::format("schedule = wgmma: {} has it", name(arch)));
    return choice;
  }
  Choice choice = choose_cp_async(problem, arch, request);
  choice.why.insert(choice.why.begin(),
                    fmt::format("schedule = cp_async: wgmma cannot serve ({})", *no_wgmma));
  return choice;
}

ConfigRequest same_blocks(const Config& config) {
  return {.schedule = config.schedule, .block_h = config.block_h};
}

int head_blocks(const Problem& problem, const Config& config) {
  return (problem.heads_per_group() + config.block_h - 1) / config.block_h;
}

int block_tokens(const Config& config) {
  return uses_wgmma(config.schedule) ? kWgmmaRows / config.block_h : 1;
}

int cluster_ctas(const Config& config) {
  return config.schedule == Schedule::wgmma_pair ? 2 : 1;
}

bool uses_wgmma(Schedule schedule) {
  return schedule == Schedule::wgmma || schedule == Schedule::wgmma_pair;
}

int shared_memory_bytes(const Problem& problem, const Config& config) {
  return uses_wgmma(config.schedule) ? wgmma_shared_bytes(problem) : cp_async_shared_bytes(problem, config);
}

std::string canonical_name(const Config& config) {
  return fmt::format("{}-bh{}-bs{}-st{}-th{}{}", name(config.schedule), config.block_h, config.block_size,
                     config.stages, config.threads, config.vector_reductions ? "" : "-red1");
}

std::string_view name(Schedule schedule) {
  switch (schedule) {
    case Schedule::cp_async:
      return "cp_async";
    case Schedule::wgmma:
      return "wgmma";
    case Schedule::wgmma_pair:
      return "wgmma_pair";
  }
  return "";
}

Schedule parse_schedule(std::string_view text) {
  for (const Schedule schedule : {Schedule::cp_async, Schedule::wgmma, Schedule::wgmma_pair}) {
    if (text == name(schedule)) return schedule;
  }
  fail(Status::invalid_argument, "schedule = \"{}\" is not known; known are cp_async, wgmma and wgmma_pair",
       text);
}

}  // namespace smla::core
