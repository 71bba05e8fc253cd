#include "run_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "device_call.h"
#include "emulator/plan_on_cpu.h"
#include "generator/generator.h"
#include "plan/plan.h"
#include "reference/bounds.h"
#include "reference/layout.h"
#include "reference/reference.h"

namespace smla::core {
namespace {

// B * S * H * topk up to which the fp64 forward makes o and lse: about a second on 8 cores.
constexpr std::int64_t kHostForward = std::int64_t{1} << 21;

InputOptions inputs_of(const CheckCase& c) {
  InputOptions inputs = c.inputs;
  inputs.keys = c.keys.value_or(512);
  if (!inputs.list_file.empty()) inputs.lists = ListKind::file;
  return inputs;
}

bool has_host_forward(const CheckCase& c) {
  std::int64_t work = c.flags.problem.heads;
  for (const std::int64_t length : {c.inputs.batch, c.inputs.queries, c.inputs.topk}) {
    if (__builtin_mul_overflow(work, length, &work)) return false;
  }
  return work <= kHostForward;
}

void refuse_what_needs_host_forward(const CheckCase& c) {
  if (has_host_forward(c) || (!c.poison && c.layout == 0)) return;
  fail(Status::invalid_argument,
       "{} needs o and lse of the fp64 forward, which runs up to heads * batch * queries * topk = {}",
       c.poison ? std::string("--poison") : fmt::format("--layout = {}", c.layout), kHostForward);
}

HostTensors tensors_of(const CheckCase& c, bool with_forward) {
  InputOptions inputs = inputs_of(c);
  inputs.with_forward = with_forward;
  HostTensors tensors = make_inputs(c.flags.problem, inputs, c.seed);
  if (c.poison) poison_unused(c.flags.problem, tensors);
  return tensors;
}

// Keeps the worst of several runs.
void keep_worst(std::vector<CheckedTensor>& worst, std::vector<CheckedTensor> now) {
  if (worst.empty()) worst = now;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const bool worse = now[i].passed() == worst[i].passed()
                           ? now[i].difference.relative_l2 > worst[i].difference.relative_l2
                           : !now[i].passed();
    if (worse) worst[i] = now[i];
  }
}

}  // namespace

bool CheckResult::passed() const {
  return (!report || report->clean()) &&
         std::all_of(checked.begin(), checked.end(), [](const CheckedTensor& t) { return t.passed(); });
}

CheckResult check_on_gpu(const CheckCase& c, int device) {
  refuse_what_needs_host_forward(c);
  const Problem& p = c.flags.problem;
  const auto plan = create_plan(p, c.flags.request, device);
  const CurrentDevice current(plan->device.handle);
  HostTensors tensors = tensors_of(c, has_host_forward(c));
  const DeviceCall call = make_device_call(*plan, tensors, c.order, drawn_layout(p, tensors, c.layout));
  run(*plan, call.call);
  synchronize(call.call.stream);
  return {plan->device.name, plan->prepared->name,
          check_outputs(p, tensors, call, tensors.batch * std::max(tensors.queries, tensors.keys)),
          std::nullopt};
}

CpuKernels cpu_kernels(const ProblemFlags& flags, const Arch& arch) {
  CpuKernels kernels;
  kernels.config = choose_config(flags.problem, arch, flags.request).config;
  kernels.source = generate(flags.problem, kernels.config);
  kernels.compiled = emulator::compile_for_host(kernels.source);
  if (flags.problem.accumulate == Accumulate::partial) {
    kernels.fallback = std::make_shared<CpuKernels>(
        cpu_kernels({with_fp32_sums(flags.problem), same_blocks(kernels.config)}, arch));
  }
  return kernels;
}

CheckResult check_on_cpu(const CheckCase& c, const CpuKernels& kernels, const CpuRuns& runs) {
  const Problem& p = c.flags.problem;
  const HostTensors tensors = tensors_of(c, true);
  const Gradients want = backward(p, tensors);
  const double bound = gradient_bound(p, tensors);
  const Layout layout = drawn_layout(p, tensors, c.layout);

  std::optional<emulator::CpuFallback> fallback;
  if (kernels.fallback) {
    fallback.emplace(emulator::CpuFallback{kernels.fallback->source, *kernels.fallback->compiled});
  }
  CheckResult result{"CPU", kernels.source.name, {}, emulator::Report{}};
  for (int i = 0; i < runs.schedules; ++i) {
    const emulator::CpuCall call = emulator::make_cpu_call(p, tensors, c.order, layout);
    result.report->add(emulator::run_on_cpu(
        kernels.source, *kernels.compiled, p, kernels.config, call.call,
        {.seed = c.seed + static_cast<std::uint64_t>(i), .virtual_sms = runs.virtual_sms},
        fallback ? &*fallback : nullptr));
    const emulator::CpuOutputs got = emulator::outputs_of(p, call);
    std::vector<CheckedTensor> checked = {
        compared("d_q", tensors.batch * tensors.queries, got.d_q, want.d_q, bound, d_q_noise(p, tensors)),
        compared("d_kv", tensors.batch * tensors.keys, got.d_kv, want.d_kv, bound)};
    if (p.has_sink) {
      checked.push_back(compared("d_sink", 1, got.d_sink, want.d_sink, kSinkBound, d_sink_noise(p, tensors)));
    }
    checked.push_back({"surroundings", 0, {}, 0, got.surroundings_intact});
    keep_worst(result.checked, std::move(checked));
    if (!result.report->clean()) break;
  }
  if (result.checked.back().passed()) result.checked.pop_back();  // as on a GPU: said when it failed
  return result;
}

std::string describe(const CheckCase& c, const CheckResult& r) {
  const InputOptions n = inputs_of(c);
  std::string text = fmt::format("{} on {}\nB {}, S {}, S_kv {}, topk {}, {} lists, seed {}\n", r.kernels,
                                 r.place, n.batch, n.queries, n.keys, n.topk, name(n.lists), c.seed);
  for (const CheckedTensor& t : r.checked) {
    text += fmt::format("  {:<7} {} (bound {:.0e}, {} rows): {}\n", t.name, t.passed() ? "ok" : "FAILED",
                        t.bound, t.rows, describe(t.difference));
  }
  if (r.report) text += emulator::describe(*r.report);
  return text;
}

Json to_json(const CheckCase& c, const CheckResult& r) {
  const InputOptions n = inputs_of(c);
  Json checked = Json::array();
  for (const CheckedTensor& t : r.checked) {
    checked.push_back({{"tensor", t.name},
                       {"rows", t.rows},
                       {"finite", t.difference.finite()},
                       {"relative_l2", t.difference.relative_l2},
                       {"bound", t.bound},
                       {"passed", t.passed()}});
  }
  Json findings = Json::array();
  if (r.report) {
    for (const auto& f : r.report->findings) findings.push_back({{"kind", f.kind}, {"text", f.text}});
  }
  return {{"on", r.place},
          {"name", r.kernels},
          {"problem", c.flags.problem},
          {"lengths", {{"batch", n.batch}, {"queries", n.queries}, {"keys", n.keys}, {"topk", n.topk}}},
          {"lists", name(n.lists)},
          {"seed", c.seed},
          {"check", checked},
          {"findings", r.report ? findings : Json()},
          {"passed", r.passed()}};
}

}  // namespace smla::core
