#include "config/config.h"

#include <algorithm>

#include "base/error.h"
#include "config/cp_async.h"
#include "config/wgmma.h"

namespace smla::core {
namespace {

// Why `schedule` cannot serve, or nothing when it can.
std::optional<std::string> obstacle(Schedule schedule, const Problem& problem, const Arch& arch,
                                    const ConfigRequest& request) {
  try {
    (void)(schedule == Schedule::wgmma ? choose_wgmma(problem, arch, request)
                                       : choose_cp_async(problem, arch, request));
    return std::nullopt;
  } catch (const Error& error) {
    return std::string(error.what()).substr(std::string_view("smla: ").size());
  }
}

}  // namespace

Choice choose_config(const Problem& problem, const Arch& arch, const ConfigRequest& request, const Limits&) {
  validate(problem);
  if (request.schedule == Schedule::wgmma) return choose_wgmma(problem, arch, request);
  if (request.schedule == Schedule::cp_async) return choose_cp_async(problem, arch, request);

  // 4k tokens, topk 2048 on an H200, ms: 64 heads: wgmma 6.5, the structure of cp_async 14; 16 heads: 7.6 by
  // cp_async, whose reductions are those of one token a CTA.
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

int head_blocks(const Problem& problem, const Config& config) {
  return (problem.heads_per_group() + config.block_h - 1) / config.block_h;
}

int block_tokens(const Config& config) {
  return config.schedule == Schedule::wgmma ? kWgmmaRows / config.block_h : 1;
}

int shared_memory_bytes(const Problem& problem, const Config& config) {
  return config.schedule == Schedule::wgmma ? wgmma_shared_bytes(problem)
                                            : cp_async_shared_bytes(problem, config);
}

std::string canonical_name(const Config& config) {
  return fmt::format("{}-bh{}-bs{}-st{}-th{}{}", name(config.schedule), config.block_h, config.block_size,
                     config.stages, config.threads, config.vector_reductions ? "" : "-red1");
}

std::string_view name(Schedule schedule) {
  return schedule == Schedule::wgmma ? "wgmma" : "cp_async";
}

Schedule parse_schedule(std::string_view text) {
  if (text == "cp_async") return Schedule::cp_async;
  if (text == "wgmma") return Schedule::wgmma;
  fail(Status::invalid_argument, "schedule = \"{}\" is not known; known are cp_async and wgmma", text);
}

}  // namespace smla::core
