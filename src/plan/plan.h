// A problem made ready on one device, and running it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "driver/device.h"
#include "plan/arguments.h"
#include "plan/call.h"
#include "plan/device_facts.h"
#include "plan/functions.h"
#include "plan/launches.h"
#include "plan/lengths.h"
#include "plan/order.h"
#include "plan/prepare.h"
#include "plan/tuning.h"
#include "problem/problem.h"

namespace smla::core {

// Immutable once created, so that any number of threads may use one. The kernels belong to a table of the
// process that is never emptied: dropping a plan while its work is queued is safe.
struct Plan {
  Problem problem;
  Choice choice;
  DeviceProperties device;
  DeviceFacts facts;
  Tuning tuned;  // of SMLA_TUNING, for this device and problem; empty for a config that a caller forced
  std::shared_ptr<const Prepared> prepared;
  FunctionTable* functions = nullptr;  // of that table
  std::shared_ptr<const Plan>
      fallback;  // partial sums: the same problem with fp32 sums, for what fp16 cannot hold
};

// Chooses the config (of SMLA_TUNING's file where it has one and `request` forces nothing), prepares the kernels and loads them on the device. Errors: those of choose_config,
// prepare and the driver; `capturing` when compiling or loading would be needed while `looked_at` is being
// captured.
std::shared_ptr<const Plan> create_plan(const Problem& problem, const ConfigRequest& request,
                                        int device_ordinal,
                                        std::optional<cuda::Stream> looked_at = std::nullopt,
                                        const Limits& limits = {});

// The order of a call: choose_order's, of SMLA_TUNING's file where `request` is automatic.
Order order_of(const Plan& plan, const Lengths& lengths, OrderRequest request);

// Bytes of workspace that a call of these lengths needs, its lists among them; with partial sums, room for
// the fallback behind its own. A call that brings memory for its lists needs lists_size() bytes less.
std::int64_t workspace_size(const Plan& plan, const Lengths& lengths,
                            OrderRequest order = OrderRequest::automatic);

// Bytes that the list pre-pass of a call of these lengths writes; 0 where it does not run.
std::int64_t lists_size(const Plan& plan, const Lengths& lengths,
                        OrderRequest order = OrderRequest::automatic);

// Validates everything, then enqueues the call on its stream: up to five launches, and with partial sums
// those of the fallback, which return at once when it is not wanted. Allocates nothing, waits for nothing,
// touches no file. After an Error of validation nothing was launched.
void run(const Plan& plan, const Call& call);

// A call ready to be enqueued, for those who look at its kernels one by one.
struct ReadyCall {
  Launches launches;
  Arguments arguments;  // of each of them
  cuda::Stream stream = nullptr;
};

// Validates everything, as run(); enqueues nothing. Refers to nothing in `plan` and `call`.
ReadyCall ready_call(const Plan& plan, const Call& call);

// With partial sums, the same call by the fallback, whose kernels look at the report of the first, and at its
// lists where both have a pre-pass.
ReadyCall ready_fallback(const Plan& plan, const Call& call, const ReadyCall& ready);

// Enqueues one of the call's launches in the current context, to which `kernels` belong:
// plan.functions->of_current_context().
void enqueue(const Launchables& kernels, const ReadyCall& call, const Launch& launch);

// One JSON object: problem, config, why, arch, device, kernels, order, last_wave, key, source, compiler,
// fallback.
std::string describe(const Plan& plan);

}  // namespace smla::core
