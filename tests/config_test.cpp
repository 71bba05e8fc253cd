// The rules that choose a config, and what they refuse.
#include "config/config.h"

#include <limits>

#include "base/error.h"
#include "catch.h"
#include "config/arch.h"

using namespace smla::core;
using smla_test::contains;

namespace {

Problem problem_of(int heads, int kv_groups = 1, int d_tail = 64) {
  Problem problem;
  problem.heads = heads;
  problem.kv_groups = kv_groups;
  problem.d_tail = d_tail;
  return problem;
}

std::string refusal(const Problem& problem, const Arch& arch, const ConfigRequest& request = {}) {
  try {
    choose_config(problem, arch, request);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

const ConfigRequest kCpAsync = {.schedule = Schedule::cp_async};

}  // namespace

TEST_CASE("cp_async keeps the seed's rule: block_H = min(64, max(next_power_of_2(H / G), 16))") {
  const int heads = GENERATE(1, 2, 8, 15, 16, 17, 24, 32, 33, 40, 64, 65, 96, 128);
  const Config config = choose_config(problem_of(heads), parse_arch("sm_90"), kCpAsync).config;
  int padded = 16;
  while (padded < heads) padded *= 2;
  CAPTURE(heads);
  CHECK(config.block_h == std::min(64, padded));
  CHECK(head_blocks(problem_of(heads), config) == (heads + config.block_h - 1) / config.block_h);
  CHECK(config.block_size == 32);
  CHECK(config.threads == (config.block_h >= 64 ? 256 : 128));
}

TEST_CASE("kv groups divide the heads before the block is chosen") {
  const Problem problem = problem_of(128, 8);
  for (const char* arch : {"sm_90a", "sm_90"}) {
    const Config config = choose_config(problem, parse_arch(arch), {}).config;
    CHECK(config.block_h == 16);
    CHECK(head_blocks(problem, config) == 1);
  }
}

TEST_CASE("what does not fit the shared memory gives up stages, then block_size, then block_h") {
  struct Row {
    const char* arch;
    int block_h, block_size, stages, bytes;
  };
  const Row row = GENERATE(Row{"sm_90", 64, 32, 2, 221184}, Row{"sm_80", 64, 16, 1, 161792},
                           Row{"sm_86", 32, 16, 1, 90112}, Row{"sm_89", 32, 16, 1, 90112},
                           Row{"sm_120", 32, 16, 1, 90112}, Row{"sm_100", 64, 32, 2, 221184});
  const Config config = choose_config(problem_of(64), parse_arch(row.arch), kCpAsync).config;
  CAPTURE(row.arch);
  CHECK(config.block_h == row.block_h);
  CHECK(config.block_size == row.block_size);
  CHECK(config.stages == row.stages);
  CHECK(shared_memory_bytes(problem_of(64), config) == row.bytes);
}

TEST_CASE("every problem finds a config that fits on every arch") {
  for (const Arch& arch : known_archs()) {
    for (const int heads : {1, 7, 16, 48, 64, 100, 128, 192, 1024}) {
      for (const int d_tail : {0, 64}) {
        const Problem problem = problem_of(heads, 1, d_tail);
        const Choice choice = choose_config(problem, arch);
        CAPTURE(name(arch), heads, d_tail);
        CHECK(shared_memory_bytes(problem, choice.config) <= shared_memory_limit(arch));
        CHECK_FALSE(choice.why.empty());
      }
    }
  }
}

TEST_CASE("wgmma is chosen on sm_90a, and there alone, and fills 64 rows with neighbouring tokens") {
  struct Row {
    int heads, block_h, tokens, head_blocks;
  };
  const Row row =
      GENERATE(Row{1, 8, 8, 1}, Row{8, 8, 8, 1}, Row{9, 16, 4, 1}, Row{16, 16, 4, 1}, Row{24, 32, 2, 1},
               Row{32, 32, 2, 1}, Row{33, 64, 1, 1}, Row{64, 64, 1, 1}, Row{192, 64, 1, 3});
  const Config config = choose_config(problem_of(row.heads), parse_arch("sm_90a")).config;
  CAPTURE(row.heads);
  CHECK(config.schedule == Schedule::wgmma);
  CHECK(config.block_h == row.block_h);
  CHECK(block_tokens(config) == row.tokens);
  CHECK(head_blocks(problem_of(row.heads), config) == row.head_blocks);
  CHECK(choose_config(problem_of(128, 2), parse_arch("sm_90a")).config.block_h == 64);
  CHECK(choose_config(problem_of(64), parse_arch("sm_90")).config.schedule == Schedule::cp_async);
  CHECK(choose_config(problem_of(64), parse_arch("sm_100a")).config.schedule == Schedule::cp_async);
}

TEST_CASE("wgmma_pair is chosen where a kv group's blocks of 64 heads come in pairs") {
  const Arch arch = parse_arch("sm_90a");
  struct Row {
    int heads, kv_groups, head_blocks;
  };
  const Row row = GENERATE(Row{65, 1, 2}, Row{96, 1, 2}, Row{127, 1, 2}, Row{128, 1, 2}, Row{256, 1, 4},
                           Row{192, 2, 2}, Row{256, 2, 2}, Row{384, 3, 2}, Row{1024, 1, 16});
  const Problem problem = problem_of(row.heads, row.kv_groups);
  const Choice choice = choose_config(problem, arch);
  CAPTURE(row.heads, row.kv_groups);
  CHECK(choice.config == Config{.schedule = Schedule::wgmma_pair,
                                .block_h = 64,
                                .block_size = 64,
                                .stages = 1,
                                .threads = 384,
                                .vector_reductions = true});
  CHECK(head_blocks(problem, choice.config) == row.head_blocks);
  CHECK(block_tokens(choice.config) == 1);
  CHECK(cluster_ctas(choice.config) == 2);
  CHECK_THAT(choice.why.front(), contains("schedule = wgmma_pair: sm_90a has it"));
  // Without the pair, by force, the same blocks on their own.
  const Config alone = choose_config(problem, arch, {.schedule = Schedule::wgmma}).config;
  CHECK(alone.schedule == Schedule::wgmma);
  CHECK(cluster_ctas(alone) == 1);
  CHECK(head_blocks(problem, alone) == row.head_blocks);
}

TEST_CASE("wgmma serves on sm_90a what wgmma_pair refuses") {
  const Arch arch = parse_arch("sm_90a");
  const auto chosen = [&](const Problem& problem, const ConfigRequest& request = {}) {
    return choose_config(problem, arch, request).config.schedule;
  };
  CHECK(chosen(problem_of(64)) == Schedule::wgmma);
  CHECK(chosen(problem_of(192)) == Schedule::wgmma);
  CHECK(chosen(problem_of(128, 2)) == Schedule::wgmma);  // one block a group
  CHECK(chosen(problem_of(384, 2)) == Schedule::wgmma);  // three
  Problem problem = problem_of(128);
  CHECK(chosen(problem, {.block_h = 32}) == Schedule::wgmma);
  CHECK(chosen(problem, {.block_h = 64}) == Schedule::wgmma_pair);
  CHECK(chosen(problem, {.block_size = 16}) == Schedule::cp_async);
  problem.dtype = DType::fp16;
  CHECK(chosen(problem) == Schedule::wgmma);
  problem = problem_of(128);
  problem.deterministic = true;
  CHECK(chosen(problem) == Schedule::wgmma);
  problem = problem_of(128);
  problem.accumulate = Accumulate::partial;
  CHECK(chosen(problem) == Schedule::wgmma);
  CHECK(choose_config(problem_of(128), parse_arch("sm_90")).config.schedule == Schedule::cp_async);
  CHECK(choose_config(problem_of(128), parse_arch("sm_100a")).config.schedule == Schedule::cp_async);
}

TEST_CASE("options that change no operand and no sum leave the pair as it is") {
  Problem problem = problem_of(128, 1, 0);
  problem.causal = problem.has_sink = problem.lse_includes_sink = problem.has_topk_length = true;
  problem.has_delta = true;
  problem.lse_base = LseBase::e;
  problem.d_kv_type = DkvType::fp32;
  CHECK(choose_config(problem, parse_arch("sm_90a")).config.schedule == Schedule::wgmma_pair);
}

TEST_CASE("what wgmma_pair cannot do is refused with the value and the nearest that works") {
  const Arch sm_90a = parse_arch("sm_90a");
  const ConfigRequest pair = {.schedule = Schedule::wgmma_pair};
  const auto refused = [&](const Problem& problem, const char* said) {
    CHECK_THAT(refusal(problem, sm_90a, pair), contains(said) && contains("the nearest that works is wgmma"));
  };
  Problem problem = problem_of(128);
  CHECK(refusal(problem, sm_90a, pair) == "accepted");
  problem.dtype = DType::fp16;
  refused(problem, "dtype = fp16: wgmma_pair exchanges sums over 64 heads in the operand type");
  problem = problem_of(128);
  problem.deterministic = true;
  refused(problem, "deterministic = true: wgmma_pair sums d_kv in fp32 alone");
  problem = problem_of(128);
  problem.accumulate = Accumulate::partial;
  refused(problem, "accumulate = partial: wgmma_pair sums d_kv in fp32 alone");
  refused(problem_of(64),
          "heads / kv_groups = 64: wgmma_pair needs an even number of blocks of 64 heads and this makes 1");
  refused(problem_of(192),
          "heads / kv_groups = 192: wgmma_pair needs an even number of blocks of 64 heads and this makes 3");
  refused(problem_of(256, 4), "heads / kv_groups = 64");
  refused(problem_of(16), "this makes 1");
  CHECK_THAT(
      refusal(problem_of(128), parse_arch("sm_90"), pair),
      contains(
          "schedule = wgmma_pair needs sm_90a and the arch is sm_90; the nearest that works is cp_async"));
  CHECK_THAT(refusal(problem_of(128), parse_arch("sm_100a"), pair), contains("the arch is sm_100a"));
  const auto refused_request = [&](ConfigRequest request, const char* said) {
    request.schedule = Schedule::wgmma_pair;
    CHECK_THAT(refusal(problem_of(128), sm_90a, request), contains(said));
  };
  refused_request(
      {.block_h = 32},
      "block_h = 32 (config.block_h): wgmma_pair takes 64 heads a CTA; the nearest that works is wgmma");
  refused_request({.block_size = 32}, "block_size = 32 (config.block_size): wgmma_pair takes 64 alone");
  refused_request({.stages = 2}, "stages = 2 (config.stages): wgmma_pair takes 1 alone");
  refused_request({.threads = 256}, "threads = 256 (config.threads): wgmma_pair takes 384 alone");
}

TEST_CASE("the fallback of partial sums takes the blocks of the config that it stands in for") {
  Problem problem = problem_of(128);
  problem.accumulate = Accumulate::partial;
  for (const int block_h : {64, 32}) {
    const Config partial = choose_config(problem, parse_arch("sm_90a"), {.block_h = block_h}).config;
    CHECK(choose_config(with_fp32_sums(problem), parse_arch("sm_90a"), same_blocks(partial)).config ==
          partial);
  }
}

TEST_CASE("a forced value that wgmma cannot honour leaves the choice to cp_async") {
  const Config config = choose_config(problem_of(64), parse_arch("sm_90a"), {.block_size = 16}).config;
  CHECK(config.schedule == Schedule::cp_async);
  CHECK(config.block_size == 16);
}

TEST_CASE("forced values are honoured") {
  const ConfigRequest request = {
      .schedule = Schedule::cp_async, .block_h = 32, .block_size = 64, .stages = 1, .threads = 256};
  const Config config = choose_config(problem_of(64), parse_arch("sm_90"), request).config;
  CHECK(config.block_h == 32);
  CHECK(config.block_size == 64);
  CHECK(config.stages == 1);
  CHECK(config.threads == 256);
}

TEST_CASE("the seed's num_stages = 0 means one buffer") {
  CHECK(choose_config(problem_of(16), parse_arch("sm_90"), {.stages = 0}).config.stages == 1);
}

TEST_CASE("a forced value that cannot work is refused with itself and the nearest that works") {
  const Arch sm_90 = parse_arch("sm_90"), sm_90a = parse_arch("sm_90a");
  CHECK_THAT(refusal(problem_of(64), sm_90, {.block_h = 48}), contains("block_h = 48") && contains("is 64"));
  CHECK_THAT(refusal(problem_of(64), sm_90, {.block_size = 20}),
             contains("block_size = 20") && contains("is 16"));
  CHECK_THAT(refusal(problem_of(64), sm_90, {.stages = -1}), contains("stages = -1"));
  CHECK_THAT(refusal(problem_of(64), sm_90, {.threads = 96}), contains("threads = 96") && contains("is 128"));
  CHECK_THAT(refusal(problem_of(64), sm_90, {.threads = 128}),
             contains("threads = 128 with block_h = 64") && contains("is 256"));
  CHECK_THAT(refusal(problem_of(64), sm_90, {.block_h = 64, .stages = 8}),
             contains("232448") && contains("64 / 32 / 2"));
  CHECK_THAT(refusal(problem_of(64), sm_90a, {.schedule = Schedule::wgmma, .block_h = 4}),
             contains("block_h = 4 (config.block_h)") && contains("works is 8"));
  CHECK_THAT(refusal(problem_of(64), sm_90a, {.schedule = Schedule::wgmma, .block_h = 48}),
             contains("block_h = 48") && contains("works is 64"));
  CHECK_THAT(refusal(problem_of(64), sm_90, {.schedule = Schedule::wgmma}), contains("needs sm_90a"));
  CHECK_THAT(refusal(problem_of(64), sm_90a, {.schedule = Schedule::wgmma, .threads = 256}),
             contains("threads = 256") && contains("is 384"));
}

TEST_CASE("a problem that nothing computes is refused with the field, its value and the nearest that works") {
  const Arch arch = parse_arch("sm_90a");
  CHECK_THAT(refusal(problem_of(0), arch), contains("heads = 0"));
  CHECK_THAT(refusal(problem_of(130), arch), contains("heads = 130") && contains("is 128"));
  CHECK_THAT(refusal(problem_of(2147483647), arch), contains("heads = 2147483647") && contains("is 65536"));
  CHECK_THAT(refusal(problem_of(65600), arch), contains("heads = 65600") && contains("is 65536"));
  CHECK_THAT(refusal(problem_of(64, std::numeric_limits<int>::min()), arch),
             contains("kv_groups = -2147483648") && contains("works is 1"));
  CHECK_THAT(refusal(problem_of(65, 2), arch),
             contains("heads = 65 is not divisible by kv_groups = 2") && contains("problem.kv_groups"));
  CHECK_THAT(refusal(problem_of(64, 1, 32), arch), contains("d_tail = 32"));
  Problem problem = problem_of(64);
  problem.d_v = 256;
  CHECK_THAT(refusal(problem, arch), contains("d_v = 256"));
  problem = problem_of(64);
  problem.lse_includes_sink = true;
  CHECK_THAT(refusal(problem, arch), contains("lse_includes_sink"));
  problem = problem_of(64);
  problem.deterministic = true;
  problem.accumulate = Accumulate::partial;
  CHECK_THAT(refusal(problem, arch), contains("deterministic") && contains("partial"));
  problem = problem_of(64);
  problem.accumulate = Accumulate::partial;
  CHECK(refusal(problem, arch) == "accepted");
  CHECK_THAT(refusal(problem, parse_arch("sm_90")),
             contains("accumulate = partial needs the schedule wgmma on sm_90a"));
  CHECK_THAT(refusal(problem, arch, kCpAsync),
             contains("accumulate = partial needs the schedule wgmma on sm_90a"));
  problem.dtype = DType::fp16;
  CHECK_THAT(refusal(problem, arch), contains("needs dtype = bf16 and it is fp16"));
}

TEST_CASE("an arch is known by its name, with or without sm_") {
  CHECK(parse_arch("sm_90a") == Arch{90, true});
  CHECK(parse_arch("86") == Arch{86, false});
  CHECK(name(parse_arch("120a")) == "sm_120a");
  CHECK_THROWS_WITH(parse_arch("sm_75"), contains("sm_75") && contains("sm_80"));
  CHECK(arch_of_device(9, 0) == Arch{90, true});
  CHECK(arch_of_device(8, 9) == Arch{89, false});
  CHECK_THROWS_WITH(arch_of_device(7, 5), contains("7.5"));
}
