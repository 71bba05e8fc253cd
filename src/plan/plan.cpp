#include "plan/plan.h"

#include "base/error.h"
#include "driver/driver.h"
#include "driver/library.h"
#include "driver/stream.h"
#include "plan/loaded.h"
#include "plan/workspace.h"

namespace smla::core {
namespace {

// Compiling or loading under capture would either break the capture or be forbidden by the driver.
void refuse_under_capture(cuda::Stream stream, const Problem& problem, const Arch& arch) {
  if (!is_capturing(stream)) return;
  fail(Status::capturing,
       "the kernels of {} for {} would have to be compiled or loaded while the stream is being captured; "
       "create the "
       "plan once before the capture begins",
       canonical_name(problem), name(arch));
}

}  // namespace

std::shared_ptr<const Plan> create_plan(const Problem& problem, const ConfigRequest& request,
                                        int device_ordinal, std::optional<cuda::Stream> looked_at,
                                        const Limits& limits) {
  validate(problem);
  auto plan = std::make_shared<Plan>();
  plan->problem = problem;
  plan->device = device_properties(device_ordinal);
  const Arch arch = arch_of_device(plan->device.compute_major, plan->device.compute_minor);
  plan->choice = choose_config(problem, arch, request, limits);

  const auto known = find_prepared(problem, plan->choice.config, arch);
  const bool ready = known != nullptr && is_loaded(*known, plan->device);
  if (!ready && looked_at) refuse_under_capture(*looked_at, problem, arch);
  plan->prepared = known != nullptr ? known : prepare(problem, plan->choice.config, arch);

  const LoadedKernels loaded = load_kernels(plan->prepared, plan->device);
  plan->functions = loaded.functions;
  plan->facts = loaded.facts;
  return plan;
}

std::int64_t workspace_size(const Plan& plan, const Lengths& lengths, OrderRequest request) {
  const Config& config = plan.choice.config;
  validate(lengths, plan.problem, config);
  const Order order = choose_order(plan.problem, config, lengths, plan.facts, request);
  return workspace_layout(plan.problem, plan.choice.config, lengths, order).bytes;
}

ReadyCall ready_call(const Plan& plan, const Call& call) {
  const Config& config = plan.choice.config;
  validate(call.lengths, plan.problem, config);
  const Order order = choose_order(plan.problem, config, call.lengths, plan.facts, call.order);
  const WorkspaceLayout layout = workspace_layout(plan.problem, plan.choice.config, call.lengths, order);
  validate(call, plan.problem, config);
  ReadyCall ready;
  ready.stream = call.stream;
  ready.launches = choose_launches(plan.problem, config, plan.prepared->kernels, call.lengths, order, layout);
  if (ready.launches.count == 0) return ready;
  validate_workspace(call, layout.bytes);
  ready.arguments = make_arguments(plan.problem, call, layout, order, plan.facts);
  return ready;
}

void enqueue(const Launchables& kernels, const ReadyCall& call, const Launch& l) {
  launch(kernels[static_cast<std::size_t>(l.role)], name_of(l.role), l.grid, l.threads, l.shared_bytes,
         call.stream, &call.arguments);
}

void run(const Plan& plan, const Call& call) {
  const ReadyCall ready = ready_call(plan, call);
  if (ready.launches.count == 0) return;
  const auto enqueue_all = [&](const Launchables& kernels) {
    for (const Launch& l : ready.launches) enqueue(kernels, ready, l);
  };
  // One question to the driver where this context has launched before: a known one is of the plan's device.
  const std::optional<ContextId> context = current_context();
  if (const Launchables* known = context ? plan.functions->find(*context) : nullptr) {
    enqueue_all(*known);
    return;
  }
  const CurrentDevice current(plan.device.handle);
  enqueue_all(plan.functions->of_current_context());
}

}  // namespace smla::core
