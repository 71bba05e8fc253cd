// smla-check: runs one call, or many random ones, on a GPU or on the CPU, and compares with the fp64
// reference.
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "check_case.h"
#include "driver/device.h"
#include "driver/driver.h"
#include "fuzz.h"
#include "run_check.h"
#include "tool.h"

using namespace smla::core;

namespace {

enum class Where { automatic, gpu, cpu };

struct Options {
  CheckCase one;
  Where where = Where::automatic;
  std::string arch = "sm_90a";
  CpuRuns cpu;
  int device = 0;
  bool json = false;
  std::optional<int> fuzz = {};  // random cases
  int first = 0;                 // number of the first fuzzed case
  bool trace = false;
};

constexpr const char* kExamples =
    "  smla-check --heads 64                                 on the GPU when there is one, else on the CPU\n"
    "  smla-check --heads 128 --on cpu --arch sm_80          the kernels of another arch, without any GPU\n"
    "  smla-check --heads 64 --on cpu --order throttled --virtual-sms 4 --schedules 8\n"
    "  smla-check --heads 16 --causal --sink --topk 100 --json\n"
    "  smla-check --fuzz 300 --seed 7                        random calls of random problems\n";

Where parse_where(const std::string& text) {
  if (text == "auto") return Where::automatic;
  if (text == "gpu") return Where::gpu;
  if (text == "cpu") return Where::cpu;
  fail(Status::invalid_argument, "--on = \"{}\" is not known; known are auto, gpu and cpu", text);
}

ExitCode fuzz_cases(const Options& options) {
  const bool on_gpu = options.where == Where::gpu;
  Arch arch = parse_arch(options.arch);
  if (on_gpu) {
    const DeviceProperties properties = device_properties(options.device);
    arch = arch_of_device(properties.compute_major, properties.compute_minor);
  }
  std::vector<CheckCase> cases;
  for (int i = options.first; i < options.first + *options.fuzz; ++i) {
    cases.push_back(fuzz_case(options.one.seed, i, arch, on_gpu ? gpu_fuzz_size() : cpu_fuzz_size()));
  }
  const auto trace = [&](int number, const std::string& command) {
    if (options.trace) fmt::print(stderr, "{}: {}\n", options.first + number, command);
  };
  const auto start = std::chrono::steady_clock::now();
  const FuzzReport report =
      on_gpu ? fuzz_on_gpu(cases, options.device, trace) : fuzz_on_cpu(cases, arch, trace);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (options.json) {
    Json failures = Json::array();
    for (const FuzzFailure& f : report.failures) {
      failures.push_back({{"number", options.first + f.number}, {"command", f.command}, {"what", f.what}});
    }
    print_answer(printed({{"cases", report.cases},
                          {"problems", report.problems},
                          {"seed", options.one.seed},
                          {"seconds", seconds},
                          {"failures", failures}}));
  } else {
    std::string text;
    for (const FuzzFailure& f : report.failures) {
      text += fmt::format("case {} FAILED\n  {}\n{}\n", options.first + f.number, f.command, f.what);
    }
    print_answer(text + fmt::format("{} cases of {} problems, seed {}: {} failed, {:.0f} s\n", report.cases,
                                    report.problems, options.one.seed, report.failures.size(), seconds));
  }
  if (!report.failures.empty()) {
    stop(ExitCode::check_failed, "{} of {} random cases failed", report.failures.size(), report.cases);
  }
  return ExitCode::ok;
}

ExitCode check_one(const Options& options) {
  const CheckCase& c = options.one;
  if (c.flags.problem.heads == 0) {
    stop(ExitCode::usage, "--heads is missing: the number of query heads, such as --heads 64");
  }
  validate(c.flags.problem);
  const CheckResult result =
      options.where == Where::gpu
          ? check_on_gpu(c, options.device)
          : check_on_cpu(c, cpu_kernels(c.flags, parse_arch(options.arch)), options.cpu);
  print_answer(options.json ? printed(to_json(c, result)) : describe(c, result));
  if (!result.passed()) {
    stop(ExitCode::check_failed, "{}",
         result.report && !result.report->clean()
             ? "the kernels did something that PTX does not allow or promise"
             : "the result differs from the fp64 reference by more than its bound");
  }
  return ExitCode::ok;
}

ExitCode check(Options options) {
  if (options.cpu.schedules < 1) {
    fail(Status::invalid_argument, "--schedules = {} is below 1", options.cpu.schedules);
  }
  if (options.fuzz && *options.fuzz < 1) {
    fail(Status::invalid_argument, "--fuzz = {} is no number of cases; the least is 1", *options.fuzz);
  }
  if (options.first < 0) fail(Status::invalid_argument, "--first = {} is negative", options.first);
  CheckCase only_seed;
  only_seed.seed = options.one.seed;
  if (options.fuzz && flags_of(options.one) != flags_of(only_seed)) {
    stop(ExitCode::usage, "--fuzz draws the calls, and \"{}\" says what one is; --seed alone goes with it",
         flags_of(options.one));
  }
  if (options.where == Where::automatic) {
    options.where = driver_available(nullptr) ? Where::gpu : Where::cpu;
  }
  return options.fuzz ? fuzz_cases(options) : check_one(options);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs the sparse-MLA backward on a GPU or on the CPU and checks it against fp64.",
               "smla-check");
  Options options;
  app.add_option_function<std::string>(
         "--on", [&](const std::string& text) { options.where = parse_where(text); },
         "Where to run; auto: on a GPU when there is one")
      ->type_name("auto|gpu|cpu")
      ->default_str("auto");
  app.add_option("--arch", options.arch, "On the CPU: whose kernels to run")->capture_default_str();
  app.add_option("--schedules", options.cpu.schedules, "On the CPU: orders of execution to try")
      ->capture_default_str();
  app.add_option("--virtual-sms", options.cpu.virtual_sms, "On the CPU: CTAs side by side, 1 to 8")
      ->capture_default_str();
  add_case_flags(app, options.one);
  const std::string fuzzing = "Random cases";
  app.add_option("--fuzz", options.fuzz,
                 "Run so many cases that --seed draws; prints a command line for each "
                 "that fails")
      ->group(fuzzing);
  app.add_option("--first", options.first, "Number of the first of them")
      ->capture_default_str()
      ->group(fuzzing);
  app.add_flag("--trace", options.trace, "Print the command line of each before it runs")->group(fuzzing);
  app.add_option("--device", options.device, "GPU, as CUDA_VISIBLE_DEVICES numbers them")
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON object");
  describe_tool(app, kExamples,
                {ExitCode::internal, ExitCode::usage, ExitCode::not_supported, ExitCode::no_compiler,
                 ExitCode::compile_failed, ExitCode::cache, ExitCode::no_gpu, ExitCode::check_failed,
                 ExitCode::output, ExitCode::cuda_error});
  return run_tool(app, argc, argv, [&] { return check(options); });
}
