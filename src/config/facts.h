// What each schedule supports, for people. Nothing here is written down: the rules that refuse are asked,
// value by value. `smla-gen --list` and the README's table come from here.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace smla::core {

struct Fact {
  std::string field;   // "heads", "block_h": also the key in JSON
  std::string values;  // "1 to 128, multiples of 64 from 192"
};

struct ScheduleFacts {
  Schedule schedule;
  std::vector<Fact> facts;  // the same fields in the same order for every schedule
  std::string note;
};

std::vector<ScheduleFacts> schedule_facts();

// "1 to 128, multiples of 64 from 192" for ascending numbers that were tried up to `limit`: runs, steps that
// reach the limit, and the rest one by one; "none" for none.
std::string in_words(const std::vector<int>& values, int limit);

}  // namespace smla::core
