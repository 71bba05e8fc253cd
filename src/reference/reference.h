// Forward and backward in double on the CPU: the oracle of tools and tests. Reads bf16, fp16 and fp32 inputs
// exactly and rounds nothing on the way, so what differs from it is the error of a kernel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.h"
#include "reference/host_tensors.h"

namespace smla::core {

struct Forward {
  std::vector<std::uint16_t> o;  // [B, S, H, d_v], rounded once to the operand type
  std::vector<float> lse;  // [B, S, H], in the problem's base, with the sink in it when lse_includes_sink
};

// What a forward would have saved for this backward. With a sink, o is divided by the denominator that has
// the sink in it, whatever lse holds. A row that attends to nothing: o = 0, lse = -inf (the sink's own when
// it is included).
Forward forward(const Problem& problem, const HostTensors& tensors);

// delta = sum over d_v of o * d_o of the saved o, [B, S, H], what `has_delta` brings.
std::vector<float> make_delta(const Problem& problem, const HostTensors& tensors);

struct Gradients {
  std::vector<double> d_q;     // [B, S, H, d_qk], or [tokens, H, d_qk] when sampled
  std::vector<double> d_kv;    // [B, S_kv, G, d_qk], or [rows, G, d_qk] when sampled
  std::vector<double> d_sink;  // [H]; empty without has_sink
};

// lse, o and, with has_delta, delta are taken from tensors and not recomputed: they are inputs of the
// backward.
Gradients backward(const Problem& problem, const HostTensors& tensors);

// d_q of some query tokens (b * S + s) and d_kv of some kv rows (b * S_kv + row), in the order given, and all
// of d_sink. A row costs as much as the tokens that list it, so a few rows of a large call are cheap.
Gradients backward_rows(const Problem& problem, const HostTensors& tensors,
                        std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows);

}  // namespace smla::core
