// The lengths of one call. They select launches and sizes and never a kernel: 50 sequence lengths use one
// cubin.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "problem/problem.h"

namespace smla::core {

struct Lengths {
  std::int64_t batch = 0;    // B; 0 is a call without work
  std::int64_t queries = 0;  // S, query tokens of a batch entry; 0: d_kv is zero-filled
  std::int64_t keys = 0;     // S_kv, kv rows of a batch entry; 0: d_q is zero-filled
  std::int64_t topk = 0;     // entries of a list; may exceed keys

  bool operator==(const Lengths&) const = default;
};

// Refuses, by name and value: a negative length or one above 2^31 - 1 (invalid_argument), and what the
// kernels of this config cannot address (not_supported, with the largest that works): more than 2^31 - 1
// CTAs, lists of a block of more than 2^31 - 64 entries, and for the schedules of wgmma sums of a kv group
// of 3.75 GiB and more.
void validate(const Lengths& lengths, const Problem& problem, const Config& config);

// Neighbouring query tokens of a batch entry that share a buffer of partial sums: so few that a row takes 128 additions at
// most and 85 in the mean (relative error 2.05e-4 sqrt(n / 2) beside 1.65e-3). A block of tokens adds to a row once, each
// head block anew.
std::int64_t group_tokens(const Problem& problem, const Config& config, const Lengths& lengths);

// How many such groups a batch entry has.
std::int64_t token_groups(const Problem& problem, const Config& config, const Lengths& lengths);

// Blocks of block_tokens(config) neighbouring query tokens: B * ceil(S / tokens). Call only with validated
// lengths.
std::int64_t blocks_of_tokens(const Lengths& lengths, const Config& config);

// CTAs of the backward kernel: blocks of tokens * G * head blocks. Call only with validated lengths.
std::int64_t backward_ctas(const Lengths& lengths, const Problem& problem, const Config& config);

}  // namespace smla::core
