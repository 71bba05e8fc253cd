// Measuring what a shape allows on the present GPU: every schedule and block of the config, every order of
// the lists.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "json_report.h"
#include "plan/lengths.h"
#include "plan/tuning.h"
#include "problem/problem.h"
#include "reference/host_tensors.h"
#include "timing.h"

namespace smla::core {

struct Candidate {
  ConfigRequest request;
  OrderRequest order = OrderRequest::callers;
  std::string config;    // canonical name
  bool untuned = false;  // what the rules choose
  Timing timing = {};
};

// What could be asked for on this arch: the schedule cp_async, and wgmma with blocks of 64, 32, 16 and 8
// heads; what a problem cannot have is left out.
std::vector<ConfigRequest> tunable_configs(const Problem& problem, const Arch& arch);

// Measures them all on the same inputs, in the orders that each can have, and returns them fastest (steady)
// first. Errors: those of create_plan and the driver.
std::vector<Candidate> measure_candidates(const Problem& problem, int device, HostTensors& tensors,
                                          const TimingOptions& timing);

// The fastest, or the rules' own choice where that is within 1 %: a measurement repeats no better.
TunedEntry best_entry(const std::vector<Candidate>& candidates, const std::string& device,
                      const Problem& problem, const Lengths& lengths);

std::string candidates_text(const std::vector<Candidate>& candidates, const TunedEntry& best);
Json candidates_json(const std::vector<Candidate>& candidates, const TunedEntry& best);

}  // namespace smla::core
