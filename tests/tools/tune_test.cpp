// What smla-bench --tune measures and which of it wins.
#include "tune.h"

#include <string>

#include "catch.h"

using namespace smla::core;

namespace {

std::string names_of(const Problem& problem, const char* arch) {
  std::string text;
  for (const ConfigRequest& request : tunable_configs(problem, parse_arch(arch))) {
    text += canonical_name(choose_config(problem, parse_arch(arch), request).config) + " ";
  }
  return text;
}

Candidate candidate(int block_h, OrderRequest order, double steady, bool untuned = false) {
  return {.request = {.schedule = Schedule::wgmma, .block_h = block_h},
          .order = order,
          .config = "",
          .untuned = untuned,
          .timing = {.cool = steady, .steady = steady, .slowest = steady}};
}

}  // namespace

TEST_CASE("what can be tuned is what the problem and the arch allow") {
  CHECK(names_of({.heads = 16}, "sm_90a") ==
        "wgmma-bh64-bs64-st1-th384 wgmma-bh32-bs64-st1-th384 wgmma-bh16-bs64-st1-th384 "
        "wgmma-bh8-bs64-st1-th384 "
        "cp_async-bh16-bs32-st2-th128 ");
  CHECK(names_of({.heads = 64}, "sm_80") == "cp_async-bh64-bs16-st1-th256-red1 ");
  CHECK(names_of({.heads = 128}, "sm_90a") ==
        "wgmma-bh64-bs64-st1-th384 wgmma-bh32-bs64-st1-th384 wgmma-bh16-bs64-st1-th384 "
        "wgmma-bh8-bs64-st1-th384 wgmma_pair-bh64-bs64-st1-th384 "
        "cp_async-bh64-bs32-st2-th256 ");
  // Partial sums are wgmma's alone.
  CHECK(names_of({.heads = 64, .accumulate = Accumulate::partial}, "sm_90a").find("cp_async") ==
        std::string::npos);
}

TEST_CASE("the fastest wins, unless the rules' own choice is as good as a measurement can tell") {
  const Lengths lengths = {1, 4096, 4096, 2048};
  const auto best = [&](double fastest, double untuned) {
    return best_entry(
        {candidate(32, OrderRequest::sorted, fastest), candidate(16, OrderRequest::callers, untuned, true)},
        "GPU", {.heads = 16}, lengths);
  };
  const TunedEntry tuned = best(3.0, 3.1);
  CHECK(tuned.config.block_h == 32);
  CHECK(tuned.order == OrderRequest::sorted);
  CHECK(tuned.ms == 3.0);
  CHECK(tuned.untuned_ms == 3.1);
  CHECK(tuned.lengths == lengths);
  const TunedEntry rules = best(3.0, 3.02);
  CHECK(rules.config.block_h == 16);
  CHECK(rules.order == OrderRequest::automatic);  // the rules know thresholds inside the class
  CHECK(rules.ms == 3.02);
}
