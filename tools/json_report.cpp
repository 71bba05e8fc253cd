#include "json_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

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

Json to_json(const Problem& p) {
  return {{"heads", p.heads},
          {"kv_groups", p.kv_groups},
          {"d_v", p.d_v},
          {"d_tail", p.d_tail},
          {"dtype", name(p.dtype)},
          {"causal", p.causal},
          {"has_sink", p.has_sink},
          {"has_topk_length", p.has_topk_length},
          {"has_delta", p.has_delta},
          {"lse_base", name(p.lse_base)},
          {"lse_includes_sink", p.lse_includes_sink},
          {"d_kv_type", name(p.d_kv_type)},
          {"accumulate", name(p.accumulate)},
          {"deterministic", p.deterministic}};
}

Json to_json(const Config& c) {
  return {{"schedule", name(c.schedule)}, {"block_h", c.block_h}, {"block_size", c.block_size},
          {"stages", c.stages},           {"threads", c.threads}, {"vector_reductions", c.vector_reductions}};
}

Json to_json(const ScheduleFacts& f) {
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

std::string_view name(KernelRole role) {
  switch (role) {
    case KernelRole::preprocess:
      return "preprocess";
    case KernelRole::sort_lists:
      return "sort_lists";
    case KernelRole::backward:
      return "backward";
    case KernelRole::postprocess:
      return "postprocess";
  }
  return "unknown";
}

Json kernels_json(const KernelSource& source, const Cubin& cubin) {
  Json kernels = Json::array();
  for (const KernelFacts& facts : source.kernels) {
    const KernelResources& r = resources(cubin, facts.name);
    kernels.push_back({{"name", facts.name},
                       {"role", name(facts.role)},
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
  std::string text = fmt::format("  {:<24} {:>7} {:>9} {:>11} {:>12} {:>10}  {}\n", "kernel", "threads",
                                 "registers", "spill bytes", "shared bytes", "code bytes", "grid");
  for (const KernelFacts& facts : source.kernels) {
    const KernelResources& r = resources(cubin, facts.name);
    text += fmt::format("  {:<24} {:>7} {:>9} {:>11} {:>12} {:>10}  {}\n", facts.name, facts.threads,
                        r.registers, r.spill_store_bytes + r.spill_load_bytes,
                        facts.shared_bytes + r.shared_bytes, r.code_bytes, facts.grid);
  }
  return text;
}

std::string printed(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smla::core
