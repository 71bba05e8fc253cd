#include "plan/json.h"
#include "plan/plan.h"

namespace smla::core {

namespace {

// What choose_order does of its own accord.
std::string_view order_in_words(const Plan& plan) {
  if (!uses_wgmma(plan.choice.config.schedule) || plan.facts.sort_shared_limit == 0)
    return "the caller's";
  if (plan.problem.accumulate == Accumulate::partial) return "unswept";
  if (plan.problem.deterministic) {
    return "by keys * kv_groups: up to 6144 unswept, above in row order, each list from its beginning";
  }
  return "by keys * kv_groups: up to 12288 unswept, above a sorted sweep, from 65536 on with prefetch and "
         "throttle";
}

// What choose_split does.
std::string_view last_wave_in_words(const Plan& plan) {
  if (!uses_wgmma(plan.choice.config.schedule) || plan.problem.deterministic) return "a CTA a list";
  return "lists that are not swept are shared by the CTAs that would be idle";
}

}  // namespace

std::string describe(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  const Prepared& prepared = *plan.prepared;
  const Json json = {{"problem", plan.problem},
                     {"config", plan.choice.config},
                     {"why", plan.choice.why},
                     {"arch", name(prepared.arch)},
                     {"device",
                      {{"ordinal", plan.device.ordinal},
                       {"name", plan.device.name},
                       {"multiprocessors", plan.device.multiprocessors},
                       {"ctas_in_flight", plan.facts.ctas_in_flight}}},
                     {"kernels", kernels_json(prepared.kernels, prepared.cubin)},
                     {"order", order_in_words(plan)},
                     {"last_wave", last_wave_in_words(plan)},
                     {"key", prepared.key.file_name()},
                     {"source", name(prepared.source)},
                     {"compiler", prepared.cubin.compiler},
                     {"fallback", plan.fallback ? Json(plan.fallback->prepared->name) : Json()}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace smla::core
