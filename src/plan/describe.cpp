#include "plan/json.h"
#include "plan/plan.h"

namespace smla::core {

std::string describe(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  const Prepared& prepared = *plan.prepared;
  const bool sorts = plan.choice.config.schedule == Schedule::wgmma && plan.facts.sort_shared_limit > 0;
  const Json json = {
      {"problem", plan.problem},
      {"config", plan.choice.config},
      {"why", plan.choice.why},
      {"arch", name(prepared.arch)},
      {"device",
       {{"ordinal", plan.device.ordinal},
        {"name", plan.device.name},
        {"multiprocessors", plan.device.multiprocessors},
        {"ctas_in_flight", plan.facts.ctas_in_flight}}},
      {"kernels", kernels_json(prepared.kernels, prepared.cubin)},
      {"order", sorts ? "by keys * kv_groups: up to 12288 unswept, above a sorted sweep, from 65536 on "
                        "with prefetch and throttle"
                      : "the caller's"},
      {"key", prepared.key.file_name()},
      {"source", name(prepared.source)},
      {"compiler", prepared.cubin.compiler}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace smla::core
