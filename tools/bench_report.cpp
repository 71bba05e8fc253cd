#include "bench_report.h"

#include <fmt/format.h>

#include "compile_time.h"
#include "device_limits_report.h"
#include "floor.h"

namespace smla::core {
namespace {

double tflops(double flops, double milliseconds) {
  return flops / milliseconds * 1e-9;
}

// The model beside the measurement, cool with cool and steady with steady.
std::string least_time_text(const LeastTime& least, const Timing& call, double flops) {
  const auto line = [](const char* what, double cool, double steady, const char* unit) {
    return fmt::format("  {:<20} {:>9.3f} {:>9.3f} {}\n", what, cool, steady, unit);
  };
  return line("least by memory", least.cool.memory, least.steady.memory, "ms for gather and reductions") +
         line("least by matrices", least.cool.matrices, least.steady.matrices, "ms") +
         fmt::format("  {:<20} {:>8.0f}% {:>8.0f}% of {:.1f} and {:.1f} TFLOPS, the limits measured below\n",
                     "share of the limit", 100 * least.cool.both() / call.cool,
                     100 * least.steady.both() / call.steady, tflops(flops, least.cool.both()),
                     tflops(flops, least.steady.both()));
}

std::string split_text(const Split& split) {
  if (split.blocks == 0) return "";
  return fmt::format("the last {} blocks' lists are shared by {} CTAs each\n", split.blocks, split.shares);
}

}  // namespace

std::string text_report(const Plan& plan, const BenchResult& r) {
  const Lengths& lengths = r.lengths;
  const double flops = call_flops(plan.problem, lengths);
  std::string text = fmt::format(
      "{} on {}\nB {}, S {}, S_kv {}, topk {}, {} lists; {}\n{}kernels from {}, {} in {}; workspace "
      "{:.1f} MB\n\n",
      plan.prepared->name, plan.device.name, lengths.batch, lengths.queries, lengths.keys, lengths.topk,
      name(r.lists), r.order.why, split_text(r.order.split), name(plan.prepared->source),
      plan.prepared->cubin.compiler,
      compile_time(plan.prepared->cubin.compile_seconds, plan.prepared->cubin.compile_cpu_seconds),
      static_cast<double>(r.workspace_bytes) * 1e-6);
  text += fmt::format("  {:<20} {:>9} {:>9}\n", "", "cool", "steady");
  for (const KernelTiming& k : r.kernels) {
    text += fmt::format("  {:<20} {:>9} {:>9.3f} ms\n", name_of(k.launch.role), "", k.timing.steady);
  }
  text += fmt::format("  {:<20} {:>9.3f} {:>9.3f} ms\n", "the call", r.call.cool, r.call.steady);
  text += fmt::format("  {:<20} {:>9.1f} {:>9.1f} TFLOPS\n", "", tflops(flops, r.call.cool),
                      tflops(flops, r.call.steady));
  if (r.floor) {
    text +=
        fmt::format("  {:<20} {:>8.0f}% {:>8.0f}% of {:.1f} TFLOPS\n", "share of the limit",
                    100 * *r.floor / r.call.cool, 100 * *r.floor / r.call.steady, tflops(flops, *r.floor));
  }
  if (r.least) text += least_time_text(*r.least, r.call, flops);
  text +=
      fmt::format("  {:<20} {:>9} {:>9.1f} us to enqueue it, {:.1f} of them in the driver's {} launches\n",
                  "host", "", r.host.call, r.host.launches, r.kernels.size());
  if (!r.limits.empty()) {
    text += "\n";
    text += limits_text(plan.device, r.limits);
  }
  if (!r.checked.empty()) text += "\n";
  for (const CheckedTensor& c : r.checked) {
    text += fmt::format("  {:<7} {} (bound {:.0e}, {} rows): {}\n", c.name, c.passed() ? "ok" : "FAILED",
                        c.bound, c.rows, describe(c.difference));
  }
  return text;
}

namespace {

Json timing_json(const Timing& t) {
  return {{"cool_ms", t.cool}, {"steady_ms", t.steady}, {"slowest_ms", t.slowest}};
}

}  // namespace

Json json_report(const Plan& plan, const BenchResult& r) {
  const Lengths& n = r.lengths;
  const double flops = call_flops(plan.problem, n);
  Json call = timing_json(r.call);
  call["cool_tflops"] = tflops(flops, r.call.cool);
  call["steady_tflops"] = tflops(flops, r.call.steady);
  call["host_us"] = r.host.call;
  call["host_launches_us"] = r.host.launches;
  const std::optional<double> limit = r.least ? r.least->steady.both() : r.floor;
  call["limit_tflops"] = limit ? Json(tflops(flops, *limit)) : Json();
  call["share_of_limit"] = limit ? Json(*limit / r.call.steady) : Json();
  Json kernels = Json::array();
  for (const KernelTiming& k : r.kernels) {
    Json kernel = {{"role", name_of(k.launch.role)}, {"grid", k.launch.grid}, {"threads", k.launch.threads}};
    kernel["steady_ms"] = k.timing.steady;
    kernels.push_back(kernel);
  }
  Json checked = Json::array();
  for (const CheckedTensor& c : r.checked) {
    checked.push_back({{"tensor", c.name},
                       {"rows", c.rows},
                       {"finite", c.difference.finite()},
                       {"relative_l2", c.difference.relative_l2},
                       {"bound", c.bound},
                       {"passed", c.passed()}});
  }
  return {
      {"device", plan.device.name},
      {"name", plan.prepared->name},
      {"problem", plan.problem},
      {"config", plan.choice.config},
      {"lengths", {{"batch", n.batch}, {"queries", n.queries}, {"keys", n.keys}, {"topk", n.topk}}},
      {"lists", name(r.lists)},
      {"order", {{"sorted", r.order.sorted}, {"prefetch", r.order.prefetch}, {"throttle", r.order.throttle}}},
      {"last_wave", {{"blocks", r.order.split.blocks}, {"ctas_a_block", r.order.split.shares}}},
      {"source", name(plan.prepared->source)},
      {"compile_seconds", plan.prepared->cubin.compile_seconds},
      {"compile_cpu_seconds", plan.prepared->cubin.compile_cpu_seconds},
      {"workspace_bytes", r.workspace_bytes},
      {"call", call},
      {"kernels", kernels},
      {"limits", r.limits.empty() ? Json() : limits_json(r.limits)},
      {"least_time", r.least ? least_time_json(*r.least) : Json()},
      {"check", checked.empty() ? Json() : checked}};
}

}  // namespace smla::core
