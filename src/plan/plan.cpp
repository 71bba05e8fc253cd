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

// Where the fallback's workspace begins.
std::int64_t behind(std::int64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// choose_config's choice; what SMLA_TUNING's file says of the device and problem counts where nothing is
// forced.
Choice tuned_choice(const Problem& problem, const Arch& arch, const ConfigRequest& request,
                    const Limits& limits, const std::string& device, Tuning& tuned) {
  if (request != ConfigRequest{}) return choose_config(problem, arch, request, limits);
  tuned = tuning_from_environment(device, problem);
  const std::optional<ConfigRequest> wanted = tuned_config(tuned, limits);
  if (!wanted) return choose_config(problem, arch, request, limits);
  try {
    Choice choice = choose_config(problem, arch, *wanted, limits);
    choice.why.insert(choice.why.begin(), "SMLA_TUNING has a config for this device and problem");
    return choice;
  } catch (const Error& error) {
    fail(Status::invalid_argument, "SMLA_TUNING has a config for {} on {} that cannot work: {}",
         canonical_name(problem), device, std::string_view(error.what()).substr(sizeof "smla: " - 1));
  }
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
  plan->choice = tuned_choice(problem, arch, request, limits, plan->device.name, plan->tuned);

  const auto known = find_prepared(problem, plan->choice.config, arch);
  const bool ready = known != nullptr && is_loaded(*known, plan->device);
  if (!ready && looked_at) refuse_under_capture(*looked_at, problem, arch);
  plan->prepared = known != nullptr ? known : prepare(problem, plan->choice.config, arch);

  const LoadedKernels loaded = load_kernels(plan->prepared, plan->device);
  plan->functions = loaded.functions;
  plan->facts = loaded.facts;
  if (problem.accumulate == Accumulate::partial) {
    plan->fallback = create_plan(with_fp32_sums(problem), same_blocks(plan->choice.config), device_ordinal,
                                 looked_at, limits);
  }
  return plan;
}

Order order_of(const Plan& plan, const Lengths& lengths, OrderRequest request) {
  const Config& config = plan.choice.config;
  if (request != OrderRequest::automatic || plan.tuned.empty())
    return choose_order(plan.problem, config, lengths, plan.facts, request);
  const OrderRequest tuned = tuned_order(plan.tuned, config, lengths, plan.facts);
  Order order = choose_order(plan.problem, config, lengths, plan.facts, tuned);
  if (tuned != OrderRequest::automatic) order.why = "SMLA_TUNING has this order for such lengths";
  return order;
}

namespace {

WorkspaceLayout layout_of(const Plan& plan, const Lengths& lengths, OrderRequest request,
                          bool lists_outside) {
  validate(lengths, plan.problem, plan.choice.config);
  return workspace_layout(plan.problem, plan.choice.config, lengths, order_of(plan, lengths, request),
                          lists_outside);
}

// Whether the fallback reads the lists of the call that it stands in for: it is a second backward over them.
bool fallback_shares_lists(const Plan& plan, const Lengths& lengths, OrderRequest request) {
  return shares_lists(order_of(plan, lengths, request), order_of(*plan.fallback, lengths, request));
}

std::int64_t workspace_bytes(const Plan& plan, const Lengths& lengths, OrderRequest request,
                             bool lists_outside) {
  const std::int64_t own = layout_of(plan, lengths, request, lists_outside).bytes;
  if (!plan.fallback) return own;
  return behind(own) +
         workspace_bytes(*plan.fallback, lengths, request, fallback_shares_lists(plan, lengths, request));
}

}  // namespace

std::int64_t workspace_size(const Plan& plan, const Lengths& lengths, OrderRequest request) {
  return workspace_bytes(plan, lengths, request, false);
}

std::int64_t lists_size(const Plan& plan, const Lengths& lengths, OrderRequest request) {
  return layout_of(plan, lengths, request, true).lists.bytes;
}

ReadyCall ready_call(const Plan& plan, const Call& call) {
  const Config& config = plan.choice.config;
  validate(call.lengths, plan.problem, config);
  const Order order = order_of(plan, call.lengths, call.order);
  const bool lists_outside = call.lists != nullptr;
  const WorkspaceLayout layout = workspace_layout(plan.problem, config, call.lengths, order, lists_outside);
  validate(call, plan.problem, config);
  ReadyCall ready;
  ready.stream = call.stream;
  ready.launches = choose_launches(plan.problem, config, plan.prepared->kernels, call.lengths, order, layout,
                                   call.lists_are_ready);
  if (ready.launches.count == 0) return ready;
  validate_workspace(call, workspace_bytes(plan, call.lengths, call.order, lists_outside));
  validate_lists(call, plan.problem, layout.lists.bytes);
  ready.arguments = make_arguments(plan.problem, config, call, layout, order, plan.facts);
  return ready;
}

ReadyCall ready_fallback(const Plan& plan, const Call& call, const ReadyCall& ready) {
  const WorkspaceLayout layout = layout_of(plan, call.lengths, call.order, call.lists != nullptr);
  const std::int64_t own = behind(layout.bytes);
  const bool shared = fallback_shares_lists(plan, call.lengths, call.order);
  Call again = call;
  again.lists = shared ? lists_of(call, layout) : nullptr;
  again.lists_bytes = shared ? static_cast<std::size_t>(layout.lists.bytes) : 0;
  again.lists_are_ready = shared;
  again.workspace = static_cast<char*>(call.workspace) + own;
  again.workspace_bytes = call.workspace_bytes - static_cast<std::size_t>(own);
  ReadyCall fallback = ready_call(*plan.fallback, again);
  fallback.arguments.partial_report = ready.arguments.counters;
  return fallback;
}

void enqueue(const Launchables& kernels, const ReadyCall& call, const Launch& l) {
  launch(kernels[static_cast<std::size_t>(l.role)], name_of(l.role), l.grid, l.threads, l.shared_bytes,
         call.stream, &call.arguments);
}

namespace {

void enqueue_all(const Plan& plan, const ReadyCall& ready) {
  const auto launch_all = [&](const Launchables& kernels) {
    for (const Launch& l : ready.launches) enqueue(kernels, ready, l);
  };
  // One question to the driver where this context has launched before: a known one is of the plan's device.
  const std::optional<ContextId> context = current_context();
  if (const Launchables* known = context ? plan.functions->find(*context) : nullptr) {
    launch_all(*known);
    return;
  }
  const CurrentDevice current(plan.device.handle);
  launch_all(plan.functions->of_current_context());
}

}  // namespace

void run(const Plan& plan, const Call& call) {
  const ReadyCall ready = ready_call(plan, call);
  if (ready.launches.count == 0) return;
  if (!plan.fallback) {
    enqueue_all(plan, ready);
    return;
  }
  const ReadyCall fallback = ready_fallback(plan, call, ready);  // validated too before anything is launched
  enqueue_all(plan, ready);
  enqueue_all(*plan.fallback, fallback);
}

}  // namespace smla::core
