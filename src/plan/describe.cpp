#include <algorithm>

#include "plan/json.h"
#include "plan/launches.h"
#include "plan/plan.h"

namespace smla::core {
namespace {

using Json = nlohmann::ordered_json;

Json kernel_json(const KernelFacts& facts, const Cubin& cubin) {
  Json json = {{"name", facts.name},
               {"role", name_of(facts.role)},
               {"grid", facts.grid},
               {"threads", facts.threads},
               {"shared_bytes", facts.shared_bytes}};
  const auto found = std::find_if(cubin.kernels.begin(), cubin.kernels.end(),
                                  [&](const KernelResources& r) { return r.name == facts.name; });
  if (found != cubin.kernels.end()) {
    json["shared_bytes"] = facts.shared_bytes + found->shared_bytes;
    json["registers"] = found->registers;
    json["spill_bytes"] = found->spill_store_bytes + found->spill_load_bytes;
    json["code_bytes"] = found->code_bytes;
  }
  return json;
}

}  // namespace

std::string describe(const Plan& plan) {
  const Prepared& prepared = *plan.prepared;
  Json kernels = Json::array();
  for (const KernelFacts& facts : prepared.kernels) kernels.push_back(kernel_json(facts, prepared.cubin));
  const bool sorts = plan.choice.config.schedule == Schedule::wgmma && plan.facts.sort_shared_limit > 0;
  const Json json = {{"problem", plan.problem},
                     {"config", plan.choice.config},
                     {"why", plan.choice.why},
                     {"arch", name(prepared.arch)},
                     {"device",
                      {{"ordinal", plan.device.ordinal},
                       {"name", plan.device.name},
                       {"multiprocessors", plan.device.multiprocessors},
                       {"ctas_in_flight", plan.facts.ctas_in_flight}}},
                     {"kernels", std::move(kernels)},
                     {"order", sorts ? "by keys * kv_groups: up to 12288 the caller's, above sorted, from "
                                       "65536 on sorted with prefetch "
                                       "and throttle"
                                     : "the caller's"},
                     {"key", prepared.key.file_name()},
                     {"source", name(prepared.source)},
                     {"compiler", prepared.cubin.compiler}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace smla::core
