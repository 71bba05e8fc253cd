// What the kernels of one call receive, from what the caller gave.
#pragma once

#include <type_traits>

#include "arguments.cuh"
#include "plan/call.h"
#include "plan/device_facts.h"
#include "plan/order.h"
#include "plan/workspace.h"
#include "problem/problem.h"

namespace smla::core {

// Host and device compilers lay out Arguments alike: 64-bit pointers and long long, 32-bit int and float,
// nothing else.
static_assert(sizeof(void*) == 8 && sizeof(long long) == 8 && sizeof(int) == 4 && sizeof(float) == 4);
static_assert(std::is_trivially_copyable_v<Arguments> && std::is_standard_layout_v<Arguments>);
static_assert(alignof(Arguments) == 8);
static_assert(sizeof(Arguments) <= 4096);  // kernel parameters of every arch

// Where the list pre-pass of a call writes: the caller's memory, or the call's workspace.
void* lists_of(const Call& call, const WorkspaceLayout& layout);

// Takes a validated call. Strides of dimensions of length 1 and pointers of empty tensors become 0.
Arguments make_arguments(const Problem& problem, const Config& config, const Call& call,
                         const WorkspaceLayout& layout, const Order& order, const DeviceFacts& device);

}  // namespace smla::core
