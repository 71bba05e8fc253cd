#include "json_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/launches.h"

namespace smla::core {
namespace {

const KernelResources& resources(const Cubin& cubin, const std::string& kernel) {
  const auto found = std::find_if(cubin.kernels.begin(), cubin.kernels.end(),
                                  [&](const KernelResources& r) { return r.name == kernel; });
  if (found == cubin.kernels.end()) {
    fail(Status::internal_error, "the compiler reported no resources for the kernel \"{}\"", kernel);
  }
  return *found;
}

}  // namespace

Json schedule_json(const ScheduleFacts& f) {
  return {{"schedule", name(f.schedule)},
          {"archs", f.archs},
          {"heads", f.heads},
          {"d_v", f.d_v},
          {"d_tail", f.d_tail},
          {"dtypes", f.dtypes},
          {"block_h", f.block_h},
          {"block_size", f.block_size},
          {"stages", f.stages},
          {"threads", f.threads},
          {"note", f.note}};
}

Json kernels_json(const KernelSource& source, const Cubin& cubin) {
  Json kernels = Json::array();
  for (const KernelFacts& facts : source.kernels) {
    const KernelResources& r = resources(cubin, facts.name);
    kernels.push_back({{"name", facts.name},
                       {"role", name_of(facts.role)},
                       {"grid", facts.grid},
                       {"threads", facts.threads},
                       {"registers", r.registers},
                       {"spill_bytes", r.spill_store_bytes + r.spill_load_bytes},
                       {"stack_bytes", r.stack_bytes},
                       {"shared_bytes", facts.shared_bytes + r.shared_bytes},
                       {"code_bytes", r.code_bytes}});
  }
  return kernels;
}

std::string kernels_text(const KernelSource& source, const Cubin& cubin) {
  std::string text = fmt::format("  {:<12} {:>7} {:>9} {:>11} {:>12} {:>10}  {}\n", "kernel", "threads",
                                 "registers", "spill bytes", "shared bytes", "code bytes", "grid");
  for (const KernelFacts& facts : source.kernels) {
    const KernelResources& r = resources(cubin, facts.name);
    text += fmt::format("  {:<12} {:>7} {:>9} {:>11} {:>12} {:>10}  {}\n", name_of(facts.role), facts.threads,
                        r.registers, r.spill_store_bytes + r.spill_load_bytes,
                        facts.shared_bytes + r.shared_bytes, r.code_bytes, facts.grid);
  }
  return text;
}

std::string printed(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smla::core
