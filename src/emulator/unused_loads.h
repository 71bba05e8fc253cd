// Loads from shared memory whose values nobody has used: until then an arrival at a peer CTA may overtake
// them.
#pragma once

#include <algorithm>
#include <vector>

#include "emulator/clock.h"

namespace smla::core::emulator {

// Of one warp. Its loads are kept as runs; a run begins at a time of the warp's clock of its own.
class UnusedLoads {
 public:
  // A load at the warp's `clock`, which steps when a run begins: what came before is not part of it.
  void load(u32& clock) {
    if (!open_) runs_.push_back({++clock, kUnused});
    open_ = true;
  }

  // Later loads begin another run. How many runs there are so far.
  std::size_t cut() {
    open_ = false;
    return runs_.size();
  }

  // The first `runs` runs are used at `clock`.
  void use(std::size_t runs, u32 clock) {
    for (; used_ < runs; ++used_) runs_[used_].used = clock;
  }
  void use_all(u32 clock) { use(cut(), clock); }

  // Of what the warp has done up to `clock`: up to when everything is done, by the uses up to `clock`.
  u32 done_of(u32 clock) const {
    const auto later = [](u32 value, const Run& run) { return value < run.used; };
    const auto first = std::upper_bound(runs_.begin(), runs_.end(), clock, later);  // not used by then
    return first != runs_.end() && first->first <= clock ? first->first - 1 : clock;
  }

  // Whether the load at `clock` is in a run that was open when something was handed to a peer up to there.
  void overtaken_at(u32 clock) { overtaken_ = std::max(overtaken_, clock); }
  bool overtaken(u32 clock) const { return clock <= overtaken_ && done_of(overtaken_) < clock; }

 private:
  static constexpr u32 kUnused = ~0u;
  struct Run {
    u32 first, used;
  };
  std::vector<Run> runs_;
  std::size_t used_ = 0;
  bool open_ = false;
  u32 overtaken_ = 0;
};

}  // namespace smla::core::emulator
