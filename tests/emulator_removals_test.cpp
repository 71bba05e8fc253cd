// Every synchronisation statement of the generated kernels is left out once: the emulator finds something, or
// the statement is on a list with the reason why another one makes it redundant.
#include <algorithm>
#include <cstdio>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "fault_cases.h"

using namespace smla_test;

namespace {

struct Statement {
  std::string part;
  std::string text;
  std::size_t at = 0;      // in the part
  std::size_t number = 0;  // among those of the same text in the part, from 0
  std::string behind;      // the line before
};

struct Redundant {
  const char* part;
  const char* text;
  int number;  // -1: all of them
  const char* because;
  const char* behind = "";  // of these only those behind a line with this in it
};

std::string line_before(const std::string& text, std::size_t at) {
  const std::size_t end = text.rfind('\n', at);
  if (end == std::string::npos || end == 0) return "";
  const std::size_t begin = text.rfind('\n', end - 1);
  return text.substr(begin + 1, end - begin - 1);
}

std::vector<Statement> statements_of(const KernelSource& source, bool sweeps) {
  static const std::regex synchronisation(
      "\\b(wgmma_fence|wgmma_commit_group|wgmma_wait_group<\\d>|fence_proxy_async|mbarrier_wait_parity(?:_"
      "cluster)?|"
      "mbarrier_arrive(?:_cluster|_expect_tx)?|fence_mbarrier_init|barrier_cluster_(?:arrive_release|wait_"
      "acquire)|"
      "mbarrier_init|bar_sync|bar_arrive|__syncthreads|cp_async_mbarrier_arrive_noinc|cp_async_commit_group|"
      "cp_async_wait_group<[^>]*>|setmaxnreg_(?:inc|dec)<\\d+>)\\([^;{]*\\);");
  std::vector<Statement> statements;
  for (const SourcePart& part : source.parts) {
    if (part.name == "ptx.cuh" || part.name == "banner") continue;
    if (part.name == "sort_lists.cuh" && !sweeps) continue;  // does not run
    std::map<std::string, std::size_t> numbers;
    for (std::sregex_iterator it(part.text.begin(), part.text.end(), synchronisation), end; it != end; ++it) {
      const std::string text = it->str();
      statements.push_back({part.name, text, static_cast<std::size_t>(it->position()), numbers[text]++,
                            line_before(part.text, static_cast<std::size_t>(it->position()))});
    }
  }
  return statements;
}

// The chunks in the middle of a sequence are alike; the usual run takes the outer ones.
bool is_repetition(const Statement& s, const std::vector<Statement>& all) {
  if (s.part != "gradient sequence" && s.part != "pair sequence") return false;
  std::size_t count = 0;
  for (const Statement& other : all) count += other.part == s.part && other.text == s.text;
  return s.number >= 2 && s.number + 2 < count;
}

KernelSource without(const KernelSource& source, const Statement& s) {
  KernelSource changed = source;
  for (SourcePart& part : changed.parts) {
    if (part.name == s.part)
      part.text = part.text.substr(0, s.at) + part.text.substr(s.at + s.text.size() - 1);
  }
  return changed;
}

const Redundant* redundant(const std::vector<Redundant>& list, const Statement& s) {
  for (const Redundant& r : list) {
    if (s.part == r.part && s.text == r.text &&
        (r.number < 0 || static_cast<std::size_t>(r.number) == s.number) &&
        s.behind.find(r.behind) != std::string::npos) {
      return &r;
    }
  }
  return nullptr;
}

void remove_each(const Problem& problem, const Arch& arch, const ConfigRequest& request, bool sweeps,
                 const std::vector<Redundant>& list, const std::vector<std::string>& only_parts = {}) {
  require_host_compiler();
  const std::vector<FaultCase> cases = fault_cases(problem, sweeps);
  const Config config = choose_config(problem, arch, request).config;
  const KernelSource source = generate(problem, config);
  const std::vector<Statement> statements = statements_of(source, sweeps);
  REQUIRE(statements.size() > 10);
  const auto is_wanted = [&](const Statement& s) {
    return only_parts.empty() || std::find(only_parts.begin(), only_parts.end(), s.part) != only_parts.end();
  };
  int removed = 0, caught = 0;
  for (const Statement& s : statements) {
    if (!is_wanted(s) || (!long_tests() && is_repetition(s, statements))) continue;
    const Redundant* reason = redundant(list, s);
    const std::string found = first_findings({problem, config, without(source, s)}, cases, 4);
    ++removed;
    caught += !found.empty();
    std::printf("%-22s %-52s #%zu %s\n", s.part.c_str(), s.text.c_str(), s.number,
                !found.empty() ? found.c_str()
                : reason       ? reason->because
                               : "NOT FOUND");
    std::fflush(stdout);
    INFO(s.part << ": " << s.text << " #" << s.number);
    CHECK(found.empty() == (reason != nullptr));
  }
  std::printf("%d of %d removals caught\n", caught, removed);
  REQUIRE(removed > 0);
}

}  // namespace

TEST_CASE("Leaving out any synchronisation of schedule wgmma is caught, or said to be redundant") {
  const char* kernel = "backward_wgmma.cuh";
  remove_each({.heads = 64, .has_sink = true}, parse_arch("sm_90a"), {}, true,
              {{kernel, "mbarrier_wait_parity(Shared::q_ready, 0);", 0,
                "DELTA_READY follows the gradient warpgroup's wait, and full[0] implies q_ready"},
               {kernel, "mbarrier_wait_parity(Shared::q_ready, 0);", 1, "compute_delta has waited for it"},
               {kernel, "fence_proxy_async();", 1,
                "the score warpgroup's fences and P_READY lie between the copies and these wgmmas"},
               {"wgmma_scores.cuh", "wgmma_fence();", 1,
                "the fence before S covers dP's registers, which nothing has touched since"},
               {kernel, "wgmma_wait_group<0>();", 0, "runs in deterministic problems alone"}});
}

TEST_CASE(
    "Leaving out any synchronisation between the CTAs of schedule wgmma_pair is caught, or said to be "
    "redundant") {
  const char* kernel = "backward_wgmma_pair.cuh";
  remove_each(
      {.heads = 128, .has_sink = true}, parse_arch("sm_90a"), {}, true,
      {{"wgmma_exchange.cuh", "fence_mbarrier_init();", 0,
        "barrier.cluster.arrive.release orders mbarrier.init before all that the peer does after its wait"},
       {"pair sequence", "wgmma_fence();", -1,
        "the fence before d_q's wgmmas covers the chunk's registers, which nothing has touched since",
        "wgmma_commit_group();"},
       {"pair sequence", "wgmma_fence();", -1,
        "the fence before the chunk's first wgmmas covers the registers of its others", "receive_chunk<"},
       {kernel, "mbarrier_wait_parity(own(Shared::q_ready), 0);", 0,
        "DELTA_READY follows the gradient warpgroup's wait, and full[0] implies q_ready"},
       {kernel, "mbarrier_wait_parity(own(Shared::q_ready), 0);", 1, "compute_delta has waited for it"},
       {kernel, "fence_proxy_async();", 0,
        "the score warpgroup's fences and P_READY lie between the copies and these wgmmas"}},
      {kernel, "wgmma_exchange.cuh", "pair sequence"});
}

TEST_CASE(
    "Leaving out any synchronisation of the lists that tokens share, or of the scales of sums, is caught") {
  SECTION("four tokens a CTA, partial sums") {
    remove_each({.heads = 16, .accumulate = Accumulate::partial}, parse_arch("sm_90a"), {}, true, {},
                {"sort_lists.cuh", "group_scales.cuh"});
  }
  SECTION("integer sums") {
    remove_each({.heads = 64, .deterministic = true}, parse_arch("sm_90a"), {}, true, {}, {"row_scales.cuh"});
  }
}

TEST_CASE("Leaving out any synchronisation of schedule cp_async is caught, or said to be redundant") {
  const char* kernel = "backward_cp_async.cuh";
  const char* commit = "cp_async_commit_group();";
  const char* q_joins = "q and d_o then belong to the first tile's group, for which the same wait is";
  SECTION("two stages") {
    remove_each({.heads = 64, .has_sink = true}, parse_arch("sm_90"), {.schedule = Schedule::cp_async}, false,
                {{kernel, commit, 1, q_joins},
                 {kernel, commit, 2, "with two stages each wait is for all groups; three stages need it"},
                 {kernel, commit, 3, "with two stages each wait is for all groups; three stages need it"},
                 {kernel, "__syncthreads();", 3, "runs with one stage alone"}});
  }
  SECTION("three stages") {
    remove_each({.heads = 32, .has_sink = true}, parse_arch("sm_90"), {.block_size = 32, .stages = 3}, false,
                {{kernel, commit, 1, q_joins}, {kernel, "__syncthreads();", 3, "runs with one stage alone"}});
  }
  SECTION("one stage") {
    remove_each({.heads = 32, .has_sink = true}, parse_arch("sm_80"), {.stages = 1}, false,
                {{kernel, commit, 1, q_joins},
                 {kernel, commit, 2, "with one stage each wait is for all groups; three stages need it"},
                 {kernel, commit, 3, "runs with several stages alone"}});
  }
}
