// How far a gradient may be from the fp64 reference: the contract's bounds, and what they leave to fp32 sums
// where a gradient is nothing but the difference of equal numbers.
#pragma once

#include <span>

#include "problem/problem.h"
#include "reference/difference.h"
#include "reference/host_tensors.h"

namespace smla::core {

// Largest relative L2 error of d_q and d_kv on random inputs: the contract's.
double accuracy_bound(DType dtype);

// The same where one rounding decides all: P of a flat row is one number, and the dS of a short list are few.
// A rounding is off by at most 2^-8 (2^-11 in fp16), that of the output by as much.
double single_rounding_bound(DType dtype);

// Of d_sink: sums of fp32 over tokens, whose terms may cancel.
inline constexpr double kSinkBound = 1e-3;

// L2 norms of what fp32 sums may leave. In d_q where dP and delta cancel (one key with P = 1): dP is a sum of
// size |d_o| * rms(v), off by some 2^-20 of that, and goes into d_q times scale * |k|. In d_sink where delta
// does: it is a sum of the size of |o| |d_o|.
double d_q_noise(const Problem& problem, const HostTensors& tensors);
double d_sink_noise(const Problem& problem, const HostTensors& tensors);

// The contract's bound, or that of a single rounding where the call has less than 1000 dS.
double gradient_bound(const Problem& problem, const HostTensors& tensors);

// |got - want| <= bound * |want| + noise, all in L2, and nothing that is not finite.
bool is_close(const Difference& difference, std::span<const double> want, double bound, double noise);

}  // namespace smla::core
