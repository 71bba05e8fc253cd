#include "emulator/plan_on_cpu.h"

#include <mutex>

#include "arguments.cuh"
#include "emulator/launch.h"
#include "emulator/places.h"
#include "plan/arguments.h"
#include "plan/device_facts.h"
#include "plan/launches.h"
#include "plan/order.h"
#include "plan/workspace.h"
#include "reference/half.h"

namespace smla::core::emulator {
namespace {

using Access = GlobalBuffer::Access;

template <class T>
GlobalBuffer input(const Box& box, const std::vector<T>& values, const char* name) {
  const std::vector<unsigned char> bytes = placed(box, values);
  GlobalBuffer buffer(bytes.size(), name, Access::read_only);
  buffer.fill(bytes.data(), bytes.size());
  return buffer;
}

GlobalBuffer output(const Box& box, const char* name) {
  return {static_cast<std::size_t>(box.bytes()), name, Access::read_write};
}

Tensor view(const GlobalBuffer& buffer, const Box& box) {
  if (buffer.bytes() == 0) return {nullptr, box.strides()};
  return {static_cast<char*>(buffer.data()) + box.placement.before * box.element_bytes, box.strides()};
}

// The workspace, each piece a buffer of its own, so that a step from one into the next is noticed. Lists that
// the caller keeps, or those of the call that this one stands in for, are not part of it.
struct Workspace {
  GlobalBuffer row_lse, row_delta, list_length, block_length, sorted_lists, list_bounds, row_norms,
      group_exponent, d_q_shares, sums_and_counters;

  Workspace(const WorkspaceLayout& w, bool lists_outside)
      : row_lse(size(w.row_lse.bytes), "row_lse", Access::read_write),
        row_delta(size(w.row_delta.bytes), "row_delta", Access::read_write),
        list_length(size(w.list_length.bytes), "list_length", Access::read_write),
        block_length(lists_outside ? 0 : size(w.block_length.bytes), "block_length", Access::read_write),
        sorted_lists(lists_outside ? 0 : size(w.sorted_lists.bytes), "sorted_lists", Access::read_write),
        list_bounds(size(w.list_bounds.bytes), "list_bounds", Access::read_write),
        row_norms(size(w.row_norms.bytes), "row_norms", Access::read_write),
        group_exponent(size(w.group_exponent.bytes), "group_exponent", Access::read_write),
        d_q_shares(size(w.d_q_shares.bytes), "d_q_shares", Access::read_write),
        sums_and_counters(size(w.d_kv_sum.bytes + w.counters.bytes), "d_kv_sum and counters",
                          Access::read_write),
        counters_at(w.d_kv_sum.bytes) {}

  void put_into(Arguments& arguments) const {
    arguments.row_lse = static_cast<float*>(row_lse.data());
    arguments.row_delta = static_cast<float*>(row_delta.data());
    arguments.list_length = static_cast<int*>(list_length.data());
    if (!arguments.sorted) arguments.block_length = arguments.list_length;
    if (block_length.bytes() > 0) {
      arguments.block_length = static_cast<int*>(block_length.data());
      arguments.sorted_lists = static_cast<int*>(sorted_lists.data());
    }
    if (arguments.list_bounds) arguments.list_bounds = static_cast<float*>(list_bounds.data());
    if (row_norms.bytes() > 0) arguments.row_norms = static_cast<float*>(row_norms.data());
    if (group_exponent.bytes() > 0) arguments.group_exponent = static_cast<float*>(group_exponent.data());
    if (d_q_shares.bytes() > 0) arguments.d_q_shares = static_cast<float*>(d_q_shares.data());
    char* sums = static_cast<char*>(sums_and_counters.data());
    arguments.d_kv_sum = sums;
    arguments.counters = reinterpret_cast<unsigned*>(sums + counters_at);
    arguments.zero_begin = sums;
  }

  const void* counters() const { return static_cast<const char*>(sums_and_counters.data()) + counters_at; }

 private:
  static std::size_t size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }
  std::int64_t counters_at;
};

template <class T, class Widen>
std::vector<double> widened(const GlobalBuffer& buffer, const Box& box, bool* intact, const Widen& widen) {
  const auto* begin = static_cast<const unsigned char*>(buffer.data());
  std::vector<double> values;
  for (const T value : taken<T>(box, {begin, begin + buffer.bytes()}, intact)) values.push_back(widen(value));
  return values;
}

}  // namespace

CpuCall make_cpu_call(const Problem& p, const HostTensors& t, OrderRequest order, const Layout& layout) {
  CpuCall c;
  c.boxes = boxes_of(p, t, layout);
  const Boxes& x = c.boxes;
  c.q = input(x.q, t.q, "q");
  c.kv = input(x.kv, t.kv, "kv");
  c.o = input(x.o, t.o, "o");
  c.d_o = input(x.d_o, t.d_o, "d_o");
  c.indices = input(x.indices, t.indices, "indices");
  c.topk_length = input(x.topk_length, t.topk_length, "topk_length");
  c.lse = input(x.lse, t.lse, "lse");
  c.attn_sink = input(x.attn_sink, t.attn_sink, "attn_sink");
  c.delta = input(x.delta, t.delta, "delta");
  c.d_q = output(x.d_q, "d_q");
  c.d_kv = output(x.d_kv, "d_kv");
  c.d_sink = output(x.d_sink, "d_sink");

  Call& call = c.call;
  call.lengths = {t.batch, t.queries, t.keys, t.topk};
  call.order = order;
  call.q = view(c.q, x.q);
  call.kv = view(c.kv, x.kv);
  call.o = view(c.o, x.o);
  call.d_o = view(c.d_o, x.d_o);
  call.indices = view(c.indices, x.indices);
  call.topk_length = view(c.topk_length, x.topk_length);
  if (!t.length_per_group) call.topk_length.strides[2] = 0;
  call.lse = view(c.lse, x.lse);
  call.delta = view(c.delta, x.delta);
  call.attn_sink = view(c.attn_sink, x.attn_sink).data;
  call.d_q = view(c.d_q, x.d_q);
  call.d_kv = view(c.d_kv, x.d_kv);
  call.d_sink = view(c.d_sink, x.d_sink).data;
  call.scale = t.scale;
  call.query_offset = t.query_offset;
  return c;
}

CpuOutputs outputs_of(const Problem& p, const CpuCall& c) {
  CpuOutputs outputs;
  bool* intact = &outputs.surroundings_intact;
  const auto operand = [&p](std::uint16_t bits) { return static_cast<double>(to_float(p.dtype, bits)); };
  const auto number = [](float value) { return static_cast<double>(value); };
  outputs.d_q = widened<std::uint16_t>(c.d_q, c.boxes.d_q, intact, operand);
  outputs.d_kv = p.d_kv_type == DkvType::fp32 ? widened<float>(c.d_kv, c.boxes.d_kv, intact, number)
                                              : widened<std::uint16_t>(c.d_kv, c.boxes.d_kv, intact, operand);
  outputs.d_sink = widened<float>(c.d_sink, c.boxes.d_sink, intact, number);
  return outputs;
}

namespace {

// What is known of a call before it runs.
struct Prospect {
  DeviceFacts device;
  Order order;
  WorkspaceLayout layout;
};

Prospect prospect_of(const KernelSource& source, const CompiledKernels& kernels, const Problem& problem,
                     const Config& config, const Call& call, const CpuOptions& options) {
  const u32 cluster = kernels.cluster_size(kernel(source, KernelRole::backward).name);
  const DeviceFacts device = {
      .multiprocessors = static_cast<int>(options.virtual_sms),
      .ctas_in_flight = static_cast<int>(ctas_in_flight(options.virtual_sms, cluster)),
      .sort_shared_limit = options.sort_shared_bytes};
  const Order order = choose_order(problem, config, call.lengths, device, call.order);
  return {device, order, workspace_layout(problem, config, call.lengths, order, call.lists != nullptr)};
}

// The launches of one call.
Report run_launches(const KernelSource& source, const CompiledKernels& kernels, const Launches& launches,
                    const Arguments& arguments, const CpuOptions& options) {
  Report report;
  for (const Launch& step : launches) {
    const std::string& name = kernel(source, step.role).name;
    const auto entry = reinterpret_cast<void (*)(Arguments)>(kernels.entry(name));
    Report of_launch;
    launch(
        {step.grid, step.threads, step.shared_bytes, kernels.cluster_size(name)},
        {.seed = options.seed, .virtual_sms = options.virtual_sms, .step_limit = options.step_limit},
        [&] { entry(arguments); }, of_launch);
    for (Finding& finding : of_launch.findings)
      finding.text = std::string(name_of(step.role)) + ": " + finding.text;
    const bool ended = !of_launch.findings.empty() && of_launch.findings.back().fatal;
    report.add(of_launch);
    if (ended) break;
  }
  resolve_places(report, source.text());
  return report;
}

Report run_call(const KernelSource& source, const CompiledKernels& kernels, const Problem& problem,
                const Config& config, const Call& call, const CpuOptions& options,
                const CpuFallback* fallback) {
  validate(call.lengths, problem, config);
  validate(call, problem, config);
  const Prospect prospect = prospect_of(source, kernels, problem, config, call, options);
  const auto& [device, order, layout] = prospect;
  validate_lists(call, problem, layout.lists.bytes);
  const Workspace workspace(layout, call.lists != nullptr);
  Arguments arguments = make_arguments(problem, config, call, layout, order, device);
  workspace.put_into(arguments);
  Report report = run_launches(
      source, kernels,
      choose_launches(problem, config, source.kernels, call.lengths, order, layout, call.lists_are_ready),
      arguments, options);
  if (!fallback || !report.clean()) return report;

  const Problem fp32 = with_fp32_sums(problem);
  const Prospect again = prospect_of(fallback->source, fallback->kernels, fp32, config, call, options);
  const bool shared = shares_lists(order, again.order);
  const Workspace workspace_again(again.layout, shared);
  Arguments arguments_again = make_arguments(fp32, config, call, again.layout, again.order, again.device);
  workspace_again.put_into(arguments_again);
  if (shared) {
    arguments_again.block_length = arguments.block_length;
    arguments_again.sorted_lists = arguments.sorted_lists;
  }
  arguments_again.partial_report = static_cast<const unsigned*>(workspace.counters());
  report.add(run_launches(fallback->source, fallback->kernels,
                          choose_launches(fp32, config, fallback->source.kernels, call.lengths, again.order,
                                          again.layout, shared),
                          arguments_again, options));
  return report;
}

std::mutex executed_mutex;
Executed executed_so_far;

}  // namespace

Report run_on_cpu(const KernelSource& source, const CompiledKernels& kernels, const Problem& problem,
                  const Config& config, const Call& call, const CpuOptions& options,
                  const CpuFallback* fallback) {
  Report report = run_call(source, kernels, problem, config, call, options, fallback);
  Report counts = report;
  counts.findings.clear();
  const std::lock_guard lock(executed_mutex);
  ++executed_so_far.calls;
  executed_so_far.all.add(counts);
  return report;
}

Executed executed() {
  const std::lock_guard lock(executed_mutex);
  return executed_so_far;
}

}  // namespace smla::core::emulator
