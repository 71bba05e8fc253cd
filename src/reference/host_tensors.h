// One call's inputs in host memory: the tensors of the contract, contiguous in their documented order.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/problem.h"

namespace smla::core {

struct HostTensors {
  std::int64_t batch = 1;    // B
  std::int64_t queries = 0;  // S
  std::int64_t keys = 0;     // S_kv
  std::int64_t topk = 0;
  float scale = 0;                // softmax scale
  std::int64_t query_offset = 0;  // global position of query row 0, for the causal test

  std::vector<std::uint16_t> q = {};    // [B, S, H, d_qk], bf16 or fp16 bits as are all 16-bit tensors here
  std::vector<std::uint16_t> kv = {};   // [B, S_kv, G, d_qk]
  std::vector<std::uint16_t> o = {};    // [B, S, H, d_v], as the forward saved it
  std::vector<std::uint16_t> d_o = {};  // [B, S, H, d_v]
  std::vector<std::int32_t> indices = {};      // [B, S, G, topk]
  bool length_per_group = false;               // topk_length is [B, S, G] instead of [B, S]
  std::vector<std::int32_t> topk_length = {};  // empty without has_topk_length
  std::vector<float> lse = {};                 // [B, S, H]
  std::vector<float> attn_sink = {};           // [H]; empty without has_sink
  std::vector<float> delta = {};               // [B, S, H]; empty without has_delta

  bool operator==(const HostTensors&) const = default;
};

// Error invalid_argument when a length is negative or a tensor has not the size that the problem and lengths
// give it. o and lse are looked at by backward alone, so they may be empty until `with_forward`.
void validate(const Problem& problem, const HostTensors& tensors, bool with_forward);

// Rows of kv that the list of (b, s, g) makes this token attend to, in list order; a row listed twice is
// there twice. Everything that the contract ignores is left out: positions past topk_length, rows outside [0,
// S_kv), and with `causal` rows beyond s + query_offset.
std::vector<std::int32_t> attended_rows(const Problem& problem, const HostTensors& tensors, std::int64_t b,
                                        std::int64_t s, std::int64_t g);

}  // namespace smla::core
