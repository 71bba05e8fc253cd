// smla-bench: runs, times and checks the backward on a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "bench_report.h"
#include "call_flags.h"
#include "check.h"
#include "device_call.h"
#include "device_limits_report.h"
#include "floor.h"
#include "json_report.h"
#include "plan/order.h"
#include "plan/plan.h"
#include "problem_flags.h"
#include "reference/inputs.h"
#include "timing.h"
#include "tool.h"
#include "tune.h"

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
  bool limits = false;
  std::string tune;  // the file that gets the best
  bool json = false;
};

constexpr const char* kExamples =
    "  smla-bench --heads 64                                     4096 tokens, topk 2048, random lists\n"
    "  smla-bench --heads 128 --queries 32768 --check            long context, compared with fp64\n"
    "  smla-bench --heads 64 --lists causal --causal --json      for a program\n"
    "  smla-bench --heads 16 --schedule cp_async --order caller  another schedule\n"
    "  smla-bench --limits                                       what this GPU reduces, gathers, multiplies\n"
    "  smla-bench --heads 64 --limits                            and what follows from that for a call\n"
    "  smla-bench --heads 16 --tune h200.json                    the best schedule and order, for "
    "SMLA_TUNING\n";

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

// Rows of the tables that limits are measured with: the call's, and where those are too many for L2, in which
// a sweep keeps what it uses, few as well.
std::vector<std::int64_t> tables_of(std::int64_t rows) {
  constexpr std::int64_t kInAnyL2 = 4096;
  return rows <= 2 * kInAnyL2 ? std::vector{rows} : std::vector{kInAnyL2, rows};
}

BenchResult measure_call(const Options& options, const Plan& plan, HostTensors& tensors) {
  BenchResult result;
  result.lists = options.inputs.lists;
  if (options.limits)
    result.limits = measure_limits(plan.device, tables_of(tensors.keys * plan.problem.kv_groups));
  const DeviceCall d = make_device_call(plan, tensors, options.order);
  result.lengths = d.call.lengths;
  result.order = order_of(plan, d.call.lengths, options.order);
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
  const double tiles = reduced_tiles(plan.problem, plan.choice.config, tensors);
  if (options.limits) {
    result.least = least_time(plan.problem, plan.choice.config, tiles, result.limits);
  } else {
    result.floor = floor_milliseconds(plan.problem, plan.choice.config, tiles, plan.device);
  }
  result.host = measure_host(plan, with_least_work(plan, d.call));
  return result;
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

// --limits without a problem: the GPU alone, with a table of --keys rows.
ExitCode bench_limits(const Options& options) {
  const DeviceProperties device = device_properties(options.device);
  const CurrentDevice current(device.handle);
  const std::vector<MeasuredLimit> limits = measure_limits(device, tables_of(options.inputs.keys));
  print_answer(options.json ? printed({{"device", device.name}, {"limits", limits_json(limits)}})
                            : limits_text(device, limits));
  return ExitCode::ok;
}

// Measures every candidate, and puts the best into the file beside what it has of other shapes and devices.
ExitCode bench_tune(const Options& options) {
  if (options.flags.request != ConfigRequest{} || options.order != OrderRequest::automatic ||
      options.limits || options.check) {
    stop(ExitCode::usage,
         "--tune measures every schedule and order: leave out --schedule, --block-h, --block-size, --stages, "
         "--threads, --order, --limits and --check");
  }
  Tuning tuning;
  std::error_code error;
  if (std::filesystem::exists(options.tune, error)) tuning = read_tuning(options.tune);
  const Problem& problem = options.flags.problem;
  const DeviceProperties device = device_properties(options.device);
  const CurrentDevice current(device.handle);
  HostTensors tensors = make_inputs(problem, options.inputs, options.seed);
  TimingOptions timing = options.timing;
  timing.load_seconds = std::min(1.0, timing.load_seconds);
  const std::vector<Candidate> candidates = measure_candidates(problem, options.device, tensors, timing);
  const TunedEntry best = best_entry(candidates, device.name, problem,
                                     {tensors.batch, tensors.queries, tensors.keys, tensors.topk});
  put_entry(tuning, best);
  print_answer(options.json ? printed(candidates_json(candidates, best)) : candidates_text(candidates, best));
  write_answer(options.tune, tuning_text(tuning));  // last: what was measured is not lost with the file
  return ExitCode::ok;
}

ExitCode bench(Options options) {
  if (options.flags.problem.heads == 0 && (!options.limits || !options.tune.empty())) {
    stop(ExitCode::usage, "--heads is missing: the number of query heads, such as --heads 64");
  }
  if (!options.inputs.list_file.empty()) options.inputs.lists = ListKind::file;
  options.inputs.keys = options.keys.value_or(options.inputs.queries);
  options.inputs.with_forward = false;
  require_lengths(options.inputs);
  require_measurement(options);
  if (options.flags.problem.heads == 0) return bench_limits(options);
  validate(options.flags.problem);
  if (!options.tune.empty()) return bench_tune(options);

  const auto plan = create_plan(options.flags.problem, options.flags.request, options.device);
  const CurrentDevice current(plan->device.handle);
  HostTensors tensors = make_inputs(options.flags.problem, options.inputs, options.seed);
  const BenchResult result = measure_call(options, *plan, tensors);
  print_answer(options.json ? printed(json_report(*plan, result)) : text_report(*plan, result));
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
  app.add_flag(
      "--limits", options.limits,
      "Measure what this GPU reduces, gathers and multiplies (10 s), and compare the call with it; without "
      "--heads nothing else");
  app.add_option(
         "--tune", options.tune,
         "Measure every schedule, block and order that the shape allows and put the best into FILE, which "
         "SMLA_TUNING can name")
      ->type_name("FILE");
  app.add_flag("--json", options.json, "Print one JSON object");
  describe_tool(app, kExamples,
                {ExitCode::internal, ExitCode::usage, ExitCode::not_supported, ExitCode::no_compiler,
                 ExitCode::compile_failed, ExitCode::cache, ExitCode::no_gpu, ExitCode::check_failed,
                 ExitCode::output, ExitCode::cuda_error});
  return run_tool(app, argc, argv, [&] { return bench(options); });
}
