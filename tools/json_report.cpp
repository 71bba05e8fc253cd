#include "json_report.h"

#include <fmt/format.h>

#include "base/error.h"
#include "plan/launches.h"

namespace smla::core {

Json schedule_json(const ScheduleFacts& schedule) {
  Json json = {{"schedule", name(schedule.schedule)}};
  for (const Fact& fact : schedule.facts) json[fact.field] = fact.values;
  json["note"] = schedule.note;
  return json;
}

std::string kernels_text(const KernelSource& source, const Cubin& cubin) {
  std::string text = fmt::format("  {:<12} {:>7} {:>9} {:>11} {:>12} {:>10}  {}\n", "kernel", "threads",
                                 "registers", "spill bytes", "shared bytes", "code bytes", "grid");
  for (const KernelFacts& facts : source.kernels) {
    const KernelResources* const r = find_kernel(cubin, facts.name);
    if (r == nullptr) {
      fail(Status::internal_error, "the machine code of {} has no kernel \"{}\"", source.name, facts.name);
    }
    text += fmt::format("  {:<12} {:>7} {:>9} {:>11} {:>12} {:>10}  {}\n", name_of(facts.role), facts.threads,
                        r->registers, r->spill_store_bytes + r->spill_load_bytes,
                        facts.shared_bytes + r->shared_bytes, r->code_bytes, facts.grid);
  }
  return text;
}

std::string printed(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smla::core
