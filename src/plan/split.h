// How many CTAs share the lists of the last wave's blocks.
#pragma once

#include "config/config.h"
#include "plan/device_facts.h"
#include "plan/lengths.h"
#include "problem/problem.h"

namespace smla::core {

// The last `blocks` blocks of the backward are worked on by `shares` CTAs each, every one with its part of
// the list. The others have one CTA each.
struct Split {
  int blocks = 0;
  int shares = 1;

  bool operator==(const Split&) const = default;
};

// The rule. A grid is waves of `ctas_in_flight` CTAs, and the blocks beyond the last whole wave would leave
// most SMs idle for the time of a whole list: 4 of 4,096 tokens of 64 heads on 132 SMs, 3 % of the call. Each
// gets as many CTAs as there are for it, with whole tiles of 64 rows, and postprocess adds up their d_q.
//
// A share writes d_q in fp32 and postprocess reads it, 147 KB: with the loads of q and d_o about as long as
// two tiles of 5.5 us, by the bytes (132 shares: 19 MB to L2 and back). So a wave is split where that saves
// more than two tiles.
//
// Not split are lists that are swept, whose CTAs pass the kv rows together, deterministic problems, whose d_q
// must not depend on the number of SMs, and schedule cp_async. Takes validated lengths.
Split choose_split(const Problem& problem, const Config& config, const Lengths& lengths,
                   const DeviceFacts& device, bool sweep);

}  // namespace smla::core
