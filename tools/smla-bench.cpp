// smla-bench: runs, times and checks the backward on a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "call_flags.h"
#include "check.h"
#include "compile_time.h"
#include "device_call.h"
#include "floor.h"
#include "json_report.h"
#include "plan/order.h"
#include "plan/plan.h"
#include "problem_flags.h"
#include "reference/inputs.h"
#include "timing.h"
#include "tool.h"

using namespace smla::core;

namespace {

struct Options {
  ProblemFlags flags;
  InputOptions inputs;
  std::optional<std::int64_t> keys;
  OrderRequest order = OrderRequest::automatic;
  TimingOptions timing;
  int device = 0;
  std::uint64_t seed = 42;
  std::int64_t samples = 16;
  bool check = false;
  bool json = false;
};

constexpr const char* kExamples =
    "  smla-bench --heads 64                                     4096 tokens, topk 2048, random lists\n"
    "  smla-bench --heads 128 --queries 32768 --check            long context, compared with fp64\n"
    "  smla-bench --heads 64 --lists causal --causal --json      for a program\n"
    "  smla-bench --heads 16 --schedule cp_async --order caller  another schedule\n";

struct KernelTiming {
  Launch launch;
  Timing timing;
};

// Of one call, in microseconds.
struct HostTime {
  double call = 0;      // run(): checks, arguments and launches
  double launches = 0;  // the launches alone, which is the driver's time
};

struct Result {
  Order order;
  std::size_t workspace_bytes = 0;
  Timing call;
  std::vector<KernelTiming> kernels;
  std::optional<double> floor;  // milliseconds
  HostTime host;
  std::vector<CheckedTensor> checked;

  bool passed() const {
    for (const CheckedTensor& tensor : checked) {
      if (!tensor.passed()) return false;
    }
    return true;
  }
};

// The kernels of the call one after another, as run() launches them, with an event between two of them.
std::vector<KernelTiming> measure_kernels(const Plan& plan, const Call& call, const TimingOptions& options) {
  const ReadyCall ready = ready_call(plan, call);
  const Launches& launches = ready.launches;
  const Launchables& functions = plan.functions->of_current_context();
  const std::vector<Timing> timings = measure(
      call.stream, launches.count,
      [&](const std::function<void()>& mark) {
        for (const Launch& l : launches) {
          enqueue(functions, ready, l);
          mark();
        }
      },
      options);
  std::vector<KernelTiming> kernels;
  for (std::size_t i = 0; i < launches.count; ++i) kernels.push_back({launches.launch[i], timings[i]});
  return kernels;
}

// A call with the launches of `call` and next to no work, in the same buffers: one token, one short list.
Call with_least_work(const Plan& plan, Call call) {
  constexpr std::int64_t kFew = 64;
  const std::size_t launches = ready_call(plan, call).launches.count;
  call.lengths = {1, 1, std::min(kFew, call.lengths.keys), std::min(kFew, call.lengths.topk)};
  if (ready_call(plan, call).launches.count != launches) call.order = OrderRequest::sorted;
  return call;
}

// The device keeps up with calls of so little work, so the host never waits for it.
HostTime measure_host(const Plan& plan, const Call& call) {
  HostTime host;
  host.call = host_microseconds(call.stream, [&] { run(plan, call); });
  const ReadyCall ready = ready_call(plan, call);
  const Launchables& functions = plan.functions->of_current_context();
  host.launches = host_microseconds(call.stream, [&] {
    for (const Launch& l : ready.launches) enqueue(functions, ready, l);
  });
  return host;
}

Result measure_call(const Options& options, const Plan& plan, HostTensors& tensors) {
  const DeviceCall d = make_device_call(plan, tensors, options.order);
  Result result;
  result.order = choose_order(plan.problem, plan.choice.config, d.call.lengths, plan.facts, options.order);
  result.workspace_bytes = d.workspace.bytes();
  run(plan, d.call);
  synchronize(d.call.stream);
  if (options.check) result.checked = check_outputs(plan.problem, tensors, d, options.samples);
  result.call = measure(
                    d.call.stream, 1,
                    [&](const std::function<void()>& mark) {
                      run(plan, d.call);
                      mark();
                    },
                    options.timing)
                    .front();
  TimingOptions warm = options.timing;
  warm.rest_seconds = 0;
  warm.load_seconds = std::min(1.0, warm.load_seconds);
  result.kernels = measure_kernels(plan, d.call, warm);
  result.floor =
      floor_milliseconds(plan.problem, reduced_tiles(plan.problem, plan.choice.config, tensors), plan.device);
  result.host = measure_host(plan, with_least_work(plan, d.call));
  return result;
}

double tflops(double flops, double milliseconds) {
  return flops / milliseconds * 1e-9;
}

std::string text_report(const Options& options, const Plan& plan, const HostTensors& tensors,
                        const Result& r) {
  const Lengths lengths = {tensors.batch, tensors.queries, tensors.keys, tensors.topk};
  const double flops = call_flops(plan.problem, lengths);
  std::string text = fmt::format(
      "{} on {}\nB {}, S {}, S_kv {}, topk {}, {} lists; {}\nkernels from {}, {} in {}; workspace "
      "{:.1f} MB\n\n",
      plan.prepared->name, plan.device.name, lengths.batch, lengths.queries, lengths.keys, lengths.topk,
      name(options.inputs.lists), r.order.why, name(plan.prepared->source), plan.prepared->cubin.compiler,
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
  text +=
      fmt::format("  {:<20} {:>9} {:>9.1f} us to enqueue it, {:.1f} of them in the driver's {} launches\n",
                  "host", "", r.host.call, r.host.launches, r.kernels.size());
  if (!r.checked.empty()) text += "\n";
  for (const CheckedTensor& c : r.checked) {
    text += fmt::format("  {:<7} {} (bound {:.0e}, {} rows): {}\n", c.name, c.passed() ? "ok" : "FAILED",
                        c.bound, c.rows, describe(c.difference));
  }
  return text;
}

Json timing_json(const Timing& t) {
  return {{"cool_ms", t.cool}, {"steady_ms", t.steady}, {"slowest_ms", t.slowest}};
}

Json json_result(const Options& options, const Plan& plan, const HostTensors& tensors, const Result& r) {
  const Lengths n = {tensors.batch, tensors.queries, tensors.keys, tensors.topk};
  const double flops = call_flops(plan.problem, n);
  Json call = timing_json(r.call);
  call["cool_tflops"] = tflops(flops, r.call.cool);
  call["steady_tflops"] = tflops(flops, r.call.steady);
  call["host_us"] = r.host.call;
  call["host_launches_us"] = r.host.launches;
  call["limit_tflops"] = r.floor ? Json(tflops(flops, *r.floor)) : Json();
  call["share_of_limit"] = r.floor ? Json(*r.floor / r.call.steady) : Json();
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
      {"lists", name(options.inputs.lists)},
      {"order", {{"sorted", r.order.sorted}, {"prefetch", r.order.prefetch}, {"throttle", r.order.throttle}}},
      {"source", name(plan.prepared->source)},
      {"compile_seconds", plan.prepared->cubin.compile_seconds},
      {"compile_cpu_seconds", plan.prepared->cubin.compile_cpu_seconds},
      {"workspace_bytes", r.workspace_bytes},
      {"call", call},
      {"kernels", kernels},
      {"check", options.check ? checked : Json()}};
}

void require_lengths(const InputOptions& n) {
  const auto positive = [](const char* flag, std::int64_t value) {
    if (value < 1)
      fail(Status::invalid_argument, "{} = {} must be at least 1: there would be nothing to time", flag,
           value);
  };
  positive("--batch", n.batch);
  positive("--queries", n.queries);
  positive("--keys", n.keys);
  positive("--topk", n.topk);
}

void require_measurement(const Options& options) {
  const double seconds = options.timing.load_seconds;
  if (!(seconds >= 0 && seconds <= 3600)) {
    fail(Status::invalid_argument, "--seconds = {} is not in [0, 3600]", seconds);
  }
  if (options.samples < 1) {
    fail(Status::invalid_argument, "--samples = {} must be at least 1: there would be nothing to compare",
         options.samples);
  }
}

ExitCode bench(Options options) {
  if (options.flags.problem.heads == 0) {
    stop(ExitCode::usage, "--heads is missing: the number of query heads, such as --heads 64");
  }
  if (!options.inputs.list_file.empty()) options.inputs.lists = ListKind::file;
  options.inputs.keys = options.keys.value_or(options.inputs.queries);
  options.inputs.with_forward = false;
  require_lengths(options.inputs);
  require_measurement(options);
  validate(options.flags.problem);

  const auto plan = create_plan(options.flags.problem, options.flags.request, options.device);
  const CurrentDevice current(plan->device.handle);
  HostTensors tensors = make_inputs(options.flags.problem, options.inputs, options.seed);
  const Result result = measure_call(options, *plan, tensors);
  print_answer(options.json ? printed(json_result(options, *plan, tensors, result))
                            : text_report(options, *plan, tensors, result));
  if (!result.passed())
    stop(ExitCode::check_failed, "the result differs from the fp64 reference by more than its bound");
  return ExitCode::ok;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs, times and checks the sparse-MLA backward on a GPU.", "smla-bench");
  Options options;
  options.inputs.queries = 4096;
  options.inputs.topk = 2048;
  add_problem_flags(app, options.flags);
  add_call_flags(app, options.inputs, options.keys, "as --queries", options.order);
  app.add_option("--seed", options.seed, "Of the synthetic inputs")->capture_default_str();
  app.add_option("--device", options.device, "GPU, as CUDA_VISIBLE_DEVICES numbers them")
      ->capture_default_str();
  app.add_option("--seconds", options.timing.load_seconds, "Time under load before the steady figure")
      ->capture_default_str();
  app.add_flag("--check", options.check, "Compare sampled rows with the fp64 reference");
  app.add_option("--samples", options.samples, "Rows to compare")->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON object");
  describe_tool(app, kExamples,
                {ExitCode::internal, ExitCode::usage, ExitCode::not_supported, ExitCode::no_compiler,
                 ExitCode::compile_failed, ExitCode::cache, ExitCode::no_gpu, ExitCode::check_failed,
                 ExitCode::output, ExitCode::cuda_error});
  return run_tool(app, argc, argv, [&] { return bench(options); });
}
