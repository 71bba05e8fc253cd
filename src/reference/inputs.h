// Synthetic inputs of a call: the same on every machine for the same problem, options and seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "problem/problem.h"
#include "reference/host_tensors.h"

namespace smla::core {

enum class ListKind {
  random,  // min(topk, S_kv) different rows out of all, the same number for every token
  causal,  // token s: min(topk, max(1, s + query_offset)) different rows below max(1, s + query_offset); the
           // case that TileLang's own test uses
  neighbours,  // random, but 64 neighbouring tokens have `neighbour_share` of their list in common
  file,        // list_file: B * S * G * topk little-endian int32, in that order
};

// Positions of a list for which there is no row hold S_kv. Junk is one of -1, S_kv, S_kv + 1, 2147480000,
// 2143289344 (the bits of a NaN) and INT_MIN.
struct InputOptions {
  std::int64_t batch = 1;    // B
  std::int64_t queries = 0;  // S
  std::int64_t keys = 0;     // S_kv
  std::int64_t topk = 0;
  float scale = 0;  // 0: d_qk^-1/2
  std::int64_t query_offset = 0;

  ListKind lists = ListKind::random;
  double neighbour_share = 0.8;
  std::string list_file = {};
  double junk_share = 0;       // of the entries, replaced by junk
  double hole_share = 0;       // of the entries, replaced by -1
  double duplicate_share = 0;  // of the entries, replaced by another entry of the same list
  double dead_share = 0;       // of the lists, all of whose entries become -1
  bool sorted_lists = false;   // each list ascending, what names no row at its ends

  bool length_per_group =
      false;  // with has_topk_length: [B, S, G], each random in [-topk / 4, topk + topk / 4]

  double q_rms = 1;
  double kv_rms = 1;
  double d_o_rms = 1;
  double sink_mean = 0;  // sinks are normal with deviation 1 around it

  bool with_forward =
      true;  // o, lse and delta from the reference; false leaves them empty for another forward
};

// Errors: invalid_argument for negative lengths, shares outside [0, 1], a list file that cannot be read or
// has another size.
HostTensors make_inputs(const Problem& problem, const InputOptions& options, std::uint64_t seed);

// The index lists alone, [B, S, G, topk].
std::vector<std::int32_t> make_lists(const Problem& problem, const InputOptions& options, std::uint64_t seed);

// Puts NaN wherever the contract says that values do not matter: rows of kv that no valid entry names, and o,
// lse and delta of tokens whose lists name nothing.
void poison_unused(const Problem& problem, HostTensors& tensors);

// Fills o and lse, and delta with has_delta, as a forward on these inputs would have saved them.
void add_forward(const Problem& problem, HostTensors& tensors);

std::string_view name(ListKind kind);
// "random", "causal", "neighbours", "file"; anything else is an Error that lists them.
ListKind parse_list_kind(std::string_view text);

}  // namespace smla::core
