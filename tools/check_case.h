// What smla-check runs: one call on inputs that a seed draws. Its command line is its name.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "plan/order.h"
#include "problem_flags.h"
#include "reference/inputs.h"

namespace smla::core {

struct CheckCase {
  ProblemFlags flags;
  InputOptions inputs = {.queries = 4, .topk = 128};
  std::optional<std::int64_t> keys;  // when not given, 512
  OrderRequest order = OrderRequest::automatic;
  std::uint64_t layout = 0;  // seed of drawn_layout; 0: contiguous
  bool poison = false;       // poison_unused
  std::uint64_t seed = 1;
};

// `c` outlives the parsing; what it holds are the defaults.
void add_case_flags(CLI::App& app, CheckCase& c);

// The flags that add_case_flags reads back as the same case: "--heads 64 --causal --queries 9 --seed 3".
std::string flags_of(const CheckCase& c);

}  // namespace smla::core
