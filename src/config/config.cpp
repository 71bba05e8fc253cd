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

  // 64 heads, 4k tokens, topk 2048 on an H200: wgmma 6.5 ms, the structure of cp_async 16 ms or more.
  const auto no_wgmma = obstacle(Schedule::wgmma, problem, arch, request);
  if (!no_wgmma) {
    Choice choice = choose_wgmma(problem, arch, request);
    choice.why.insert(choice.why.begin(),
                      fmt::format("schedule = wgmma: {} heads a kv group are whole blocks of 64 and "
                                  "{} has wgmma",
                                  problem.heads_per_group(), name(arch)));
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

std::vector<ScheduleFacts> schedule_facts() {
  return {cp_async_facts(), wgmma_facts()};
}

}  // namespace smla::core
