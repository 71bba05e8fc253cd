// What was measured to be best on a device, in a file that smla-bench --tune writes and SMLA_TUNING names. It
// comes in as requests: the rules of choose_config and choose_order stay where they are and refuse what
// cannot work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "plan/lengths.h"
#include "plan/order.h"
#include "problem/problem.h"

namespace smla::core {

struct TunedEntry {
  std::string device;  // "NVIDIA H200"
  Problem problem;
  Lengths lengths;  // that were measured; keys and topk stand for their classes
  ConfigRequest config;
  OrderRequest order = OrderRequest::automatic;
  double ms = 0, untuned_ms = 0;  // of a call: so, and as the rules would have it. For people.

  bool operator==(const TunedEntry&) const = default;
};

using Tuning = std::vector<TunedEntry>;

// Whether lengths are alike enough for a measurement to hold: as many bits in keys * kv_groups, and in topk.
// (Those two decide whether sums fit L2 and how far lists overlap.)
bool same_class(const Problem& problem, const Lengths& one, const Lengths& other);

// Error invalid_argument says what is wrong and where; `origin` (a file's name) is part of the sentence.
Tuning parse_tuning(std::string_view text, std::string_view origin);
Tuning read_tuning(const std::filesystem::path& file);
std::string tuning_text(const Tuning& tuning);

// The entry in the place of the one of its device, problem and class, or behind all others.
void put_entry(Tuning& tuning, TunedEntry entry);

// The file that SMLA_TUNING names: its entries of this device and problem. Nothing where the variable is
// unset or empty; the Error of read_tuning where it names what cannot be read.
Tuning tuning_from_environment(std::string_view device, const Problem& problem);

// What to ask choose_config for, of entries of one device and problem. A plan serves all lengths: with limits
// the class of the largest lengths to expect decides; without, all entries have to agree. Else nothing.
std::optional<ConfigRequest> tuned_config(const Tuning& entries, const Limits& limits);

// What to ask choose_order for: the order of the entry of this class that was measured with this config, if
// it can serve these lengths; else automatic.
OrderRequest tuned_order(const Tuning& entries, const Config& config, const Lengths& lengths,
                         const DeviceFacts& device) noexcept;

}  // namespace smla::core
