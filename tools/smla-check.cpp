// smla-check: runs one call, on a GPU or on the CPU, and compares it with the fp64 reference.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "call_flags.h"
#include "check.h"
#include "device_call.h"
#include "driver/driver.h"
#include "emulator/plan_on_cpu.h"
#include "generator/generator.h"
#include "json_report.h"
#include "plan/plan.h"
#include "problem_flags.h"
#include "reference/inputs.h"
#include "reference/reference.h"
#include "tool.h"

using namespace smla::core;

namespace {

enum class Where { automatic, gpu, cpu };

struct Options {
  ProblemFlags flags;
  InputOptions inputs;
  std::optional<std::int64_t> keys;
  OrderRequest order = OrderRequest::automatic;
  Where where = Where::automatic;
  std::string arch = "sm_90a";
  std::uint64_t seed = 1;
  int schedules = 1;  // of the emulator: how many orders of execution are tried
  std::uint32_t virtual_sms = 2;
  int device = 0;
  bool json = false;
};

constexpr const char* kExamples =
    "  smla-check --heads 64                                 on the GPU when there is one, else on the CPU\n"
    "  smla-check --heads 128 --on cpu --arch sm_80          the kernels of another arch, without any GPU\n"
    "  smla-check --heads 64 --on cpu --order throttled --virtual-sms 4 --schedules 8\n"
    "  smla-check --heads 16 --causal --sink --topk 100 --json\n";

// Within its bound, or as near to zero as sums of fp32 come where a gradient is nothing but their rounding
// (d_q of a list of one entry).
bool is_right(const CheckedTensor& t) {
  return t.passed() || (t.difference.finite() && t.difference.max_abs < 1e-5);
}

struct Result {
  std::string place;  // a GPU's name, or "CPU"
  std::string kernels;
  std::vector<CheckedTensor> checked;
  std::optional<emulator::Report> report;

  bool passed() const {
    return (!report || report->clean()) && std::all_of(checked.begin(), checked.end(), is_right);
  }
};

Where parse_where(const std::string& text) {
  if (text == "auto") return Where::automatic;
  if (text == "gpu") return Where::gpu;
  if (text == "cpu") return Where::cpu;
  fail(Status::invalid_argument, "--on = \"{}\" is not known; known are auto, gpu and cpu", text);
}

Result check_on_gpu(const Options& options) {
  const auto plan = create_plan(options.flags.problem, options.flags.request, options.device);
  const CurrentDevice current(plan->device.handle);
  InputOptions inputs = options.inputs;
  inputs.with_forward = false;  // the device computes it
  HostTensors tensors = make_inputs(options.flags.problem, inputs, options.seed);
  const DeviceCall call = make_device_call(*plan, tensors, options.order);
  run(*plan, call.call);
  synchronize(call.call.stream);
  return {plan->device.name, plan->prepared->name,
          check_outputs(options.flags.problem, tensors, call,
                        inputs.batch * std::max(inputs.queries, inputs.keys)),
          std::nullopt};
}

// Keeps the worst of several runs.
void keep_worst(std::vector<CheckedTensor>& worst, std::vector<CheckedTensor> now) {
  if (worst.empty()) worst = now;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const bool worse =
        !now[i].difference.finite() || now[i].difference.relative_l2 > worst[i].difference.relative_l2;
    if (worst[i].difference.finite() && worse) worst[i] = now[i];
  }
}

Result check_on_cpu(const Options& options) {
  const Problem& p = options.flags.problem;
  const Choice choice = choose_config(p, parse_arch(options.arch), options.flags.request);
  const KernelSource source = generate(p, choice.config);
  const auto kernels = emulator::compile_for_host(source);
  std::optional<KernelSource> fp32_source;
  std::unique_ptr<emulator::CompiledKernels> fp32_kernels;
  std::optional<emulator::CpuFallback> fallback;
  if (p.accumulate == Accumulate::partial) {
    fp32_source = generate(with_fp32_sums(p), choice.config);
    fp32_kernels = emulator::compile_for_host(*fp32_source);
    fallback.emplace(emulator::CpuFallback{*fp32_source, *fp32_kernels});
  }
  const HostTensors tensors = make_inputs(p, options.inputs, options.seed);
  const Gradients want = backward(p, tensors);
  const double bound = p.dtype == DType::bf16 ? 3e-3 : 5e-4;

  Result result{"CPU", source.name, {}, emulator::Report{}};
  for (int i = 0; i < options.schedules; ++i) {
    const emulator::CpuCall call = emulator::make_cpu_call(p, tensors, options.order);
    result.report->add(emulator::run_on_cpu(
        source, *kernels, p, choice.config, call.call,
        {.seed = options.seed + static_cast<std::uint64_t>(i), .virtual_sms = options.virtual_sms},
        fallback ? &*fallback : nullptr));
    const emulator::CpuOutputs got = emulator::outputs_of(p, call);
    std::vector<CheckedTensor> checked = {
        {"d_q", tensors.batch * tensors.queries, difference(got.d_q, want.d_q), bound},
        {"d_kv", tensors.batch * tensors.keys, difference(got.d_kv, want.d_kv), bound}};
    if (p.has_sink) checked.push_back({"d_sink", 1, difference(got.d_sink, want.d_sink), bound});
    keep_worst(result.checked, std::move(checked));
    if (!result.report->clean()) break;
  }
  return result;
}

std::string text_report(const Options& options, const Result& r) {
  const InputOptions& n = options.inputs;
  std::string text = fmt::format("{} on {}\nB {}, S {}, S_kv {}, topk {}, {} lists, seed {}\n", r.kernels,
                                 r.place, n.batch, n.queries, n.keys, n.topk, name(n.lists), options.seed);
  for (const CheckedTensor& c : r.checked) {
    text += fmt::format("  {:<7} {} (bound {:.0e}, {} rows): {}\n", c.name, is_right(c) ? "ok" : "FAILED",
                        c.bound, c.rows, describe(c.difference));
  }
  if (r.report) text += emulator::describe(*r.report);
  return text;
}

Json json_result(const Options& options, const Result& r) {
  const InputOptions& n = options.inputs;
  Json checked = Json::array();
  for (const CheckedTensor& c : r.checked) {
    checked.push_back({{"tensor", c.name},
                       {"rows", c.rows},
                       {"finite", c.difference.finite()},
                       {"relative_l2", c.difference.relative_l2},
                       {"bound", c.bound},
                       {"passed", is_right(c)}});
  }
  Json findings = Json::array();
  if (r.report) {
    for (const auto& f : r.report->findings) findings.push_back({{"kind", f.kind}, {"text", f.text}});
  }
  return {{"on", r.place},
          {"name", r.kernels},
          {"problem", options.flags.problem},
          {"lengths", {{"batch", n.batch}, {"queries", n.queries}, {"keys", n.keys}, {"topk", n.topk}}},
          {"lists", name(n.lists)},
          {"seed", options.seed},
          {"check", checked},
          {"findings", r.report ? findings : Json()},
          {"passed", r.passed()}};
}

ExitCode check(Options options) {
  if (options.flags.problem.heads == 0) {
    stop(ExitCode::usage, "--heads is missing: the number of query heads, such as --heads 64");
  }
  if (options.schedules < 1) fail(Status::invalid_argument, "--schedules = {} is below 1", options.schedules);
  if (!options.inputs.list_file.empty()) options.inputs.lists = ListKind::file;
  options.inputs.keys = options.keys.value_or(512);
  validate(options.flags.problem);
  if (options.where == Where::automatic) {
    options.where = driver_available(nullptr) ? Where::gpu : Where::cpu;
  }
  const Result result = options.where == Where::gpu ? check_on_gpu(options) : check_on_cpu(options);
  print_answer(options.json ? printed(json_result(options, result)) : text_report(options, result));
  if (!result.passed()) {
    stop(ExitCode::check_failed, "{}",
         result.report && !result.report->clean()
             ? "the kernels did something that PTX does not allow or promise"
             : "the result differs from the fp64 reference by more than its bound");
  }
  return ExitCode::ok;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs the sparse-MLA backward on a GPU or on the CPU and checks it against fp64.",
               "smla-check");
  Options options;
  options.inputs.queries = 4;
  options.inputs.topk = 128;
  add_problem_flags(app, options.flags);
  app.add_option_function<std::string>(
         "--on", [&](const std::string& text) { options.where = parse_where(text); },
         "Where to run; auto: on a GPU when there is one")
      ->type_name("auto|gpu|cpu")
      ->default_str("auto");
  app.add_option("--arch", options.arch, "On the CPU: whose kernels to run")->capture_default_str();
  app.add_option("--schedules", options.schedules, "On the CPU: orders of execution to try")
      ->capture_default_str();
  app.add_option("--virtual-sms", options.virtual_sms, "On the CPU: CTAs side by side, 1 to 8")
      ->capture_default_str();
  add_call_flags(app, options.inputs, options.keys, "512", options.order);
  app.add_option("--seed", options.seed, "Of the synthetic inputs, and of the order of execution")
      ->capture_default_str();
  app.add_option("--device", options.device, "GPU, as CUDA_VISIBLE_DEVICES numbers them")
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON object");
  describe_tool(app, kExamples,
                {ExitCode::internal, ExitCode::usage, ExitCode::not_supported, ExitCode::no_compiler,
                 ExitCode::compile_failed, ExitCode::cache, ExitCode::no_gpu, ExitCode::check_failed,
                 ExitCode::output, ExitCode::cuda_error});
  return run_tool(app, argc, argv, [&] { return check(options); });
}
