#include "tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "config/wgmma.h"
#include "device_call.h"
#include "plan/plan.h"

namespace smla::core {
namespace {

constexpr double kRepeats = 0.01;  // how well a measurement repeats

bool same_walk(const Order& a, const Order& b) {
  return a.sorted == b.sorted && a.concatenate == b.concatenate && a.sweep == b.sweep &&
         a.prefetch == b.prefetch && a.throttle == b.throttle;
}

// Of an order that is not possible there: nothing.
std::optional<Order> order_if_possible(const Plan& plan, const Lengths& lengths, OrderRequest request) {
  try {
    return choose_order(plan.problem, plan.choice.config, lengths, plan.facts, request);
  } catch (const Error& error) {
    if (error.status() != Status::not_supported) throw;
    return std::nullopt;
  }
}

const Candidate& untuned_of(const std::vector<Candidate>& candidates) {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.untuned; });
  if (found == candidates.end()) fail(Status::internal_error, "the rules' own choice is no candidate");
  return *found;
}

bool is(const TunedEntry& best, const Candidate& c) {
  return best.order == OrderRequest::automatic ? c.untuned
                                               : c.request == best.config && c.order == best.order;
}

}  // namespace

std::vector<ConfigRequest> tunable_configs(const Problem& problem, const Arch& arch) {
  std::vector<ConfigRequest> requests;
  for (int block_h = kWgmmaRows; block_h >= 8; block_h /= 2) {
    requests.push_back({.schedule = Schedule::wgmma, .block_h = block_h});
  }
  requests.push_back({.schedule = Schedule::wgmma_pair});
  requests.push_back({.schedule = Schedule::cp_async});
  std::erase_if(requests, [&](const ConfigRequest& request) {
    try {
      (void)choose_config(problem, arch, request);
      return false;
    } catch (const Error& error) {
      if (error.status() != Status::not_supported) throw;
      return true;
    }
  });
  return requests;
}

std::vector<Candidate> measure_candidates(const Problem& problem, int device, HostTensors& tensors,
                                          const TimingOptions& timing) {
  const DeviceProperties properties = device_properties(device);
  const Arch arch = arch_of_device(properties.compute_major, properties.compute_minor);
  const Config untuned = choose_config(problem, arch).config;
  std::optional<DeviceCall> shared;  // the same tensors for all; each has a workspace of its own
  std::vector<Candidate> candidates;
  for (const ConfigRequest& request : tunable_configs(problem, arch)) {
    const auto plan = create_plan(problem, request, device);
    if (!shared) shared = make_device_call(*plan, tensors, OrderRequest::callers);
    Call& call = shared->call;
    const auto by_rule = order_if_possible(*plan, call.lengths, OrderRequest::automatic);
    for (const OrderRequest order :
         {OrderRequest::callers, OrderRequest::sorted, OrderRequest::sorted_throttled}) {
      const auto walk = order_if_possible(*plan, call.lengths, order);
      if (!walk) continue;
      call.order = order;
      shared->workspace = DeviceBuffer();  // before the next one is allocated
      shared->workspace = DeviceBuffer(static_cast<std::size_t>(workspace_size(*plan, call.lengths, order)));
      call.workspace = shared->workspace.data();
      call.workspace_bytes = shared->workspace.bytes();
      run(*plan, call);
      synchronize(call.stream);
      const auto enqueue = [&](const std::function<void()>& mark) {
        run(*plan, call);
        mark();
      };
      candidates.push_back({request, order, canonical_name(plan->choice.config),
                            plan->choice.config == untuned && same_walk(*walk, *by_rule),
                            measure(call.stream, 1, enqueue, timing).front()});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.timing.steady < b.timing.steady; });
  return candidates;
}

TunedEntry best_entry(const std::vector<Candidate>& candidates, const std::string& device,
                      const Problem& problem, const Lengths& lengths) {
  const Candidate& untuned = untuned_of(candidates);
  const Candidate& fastest = candidates.front();
  const Candidate& best = untuned.timing.steady <= (1 + kRepeats) * fastest.timing.steady ? untuned : fastest;
  // The rules know thresholds inside a class of lengths, which one measurement does not.
  const OrderRequest order = best.untuned ? OrderRequest::automatic : best.order;
  return {device, problem, lengths, best.request, order, best.timing.steady, untuned.timing.steady};
}

std::string candidates_text(const std::vector<Candidate>& candidates, const TunedEntry& best) {
  std::string text = fmt::format("  {:<34} {:<10} {:>9} {:>9}\n", "", "order", "cool", "steady");
  for (const Candidate& c : candidates) {
    text += fmt::format("  {:<34} {:<10} {:>9.3f} {:>9.3f} ms{}{}\n", c.config, name(c.order), c.timing.cool,
                        c.timing.steady, is(best, c) ? "  best" : "", c.untuned ? "  the rules' choice" : "");
  }
  return text + fmt::format("\n  the rules' choice takes {:+.1f} % of the best's time\n",
                            100 * (best.untuned_ms / best.ms - 1));
}

Json candidates_json(const std::vector<Candidate>& candidates, const TunedEntry& best) {
  Json array = Json::array();
  for (const Candidate& c : candidates) {
    array.push_back({{"config", c.config},
                     {"order", name(c.order)},
                     {"cool_ms", c.timing.cool},
                     {"steady_ms", c.timing.steady},
                     {"best", is(best, c)},
                     {"untuned", c.untuned}});
  }
  return {{"device", best.device},
          {"problem", best.problem},
          {"lengths",
           {{"batch", best.lengths.batch},
            {"queries", best.lengths.queries},
            {"keys", best.lengths.keys},
            {"topk", best.lengths.topk}}},
          {"candidates", array},
          {"best", {{"config", best.config}, {"order", name(best.order)}, {"steady_ms", best.ms}}},
          {"untuned_over_best", best.untuned_ms / best.ms}};
}

}  // namespace smla::core
