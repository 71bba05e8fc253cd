// Which entries of a list count. Numbers such as C12 are those of the field cases that tests/README.md lists.
#pragma once

#include <limits>
#include <utility>

#include "contract_case.h"

namespace smla_test {

inline Problem plain_problem(int heads) {
  return {.heads = heads, .lse_base = LseBase::e};
}

inline void padding_is_ignored(const Executor& run, int heads) {
  Case c = listed_case(plain_problem(heads), 3, 12, 64, {rows_from_0_to(10)});
  for (Placement* placement : {&c.layout.kv, &c.layout.d_kv})
    *placement = {.before = 64 * 576, .behind = 64 * 576};
  const Gradients padded = run_and_compare(run, c);
  REQUIRE(d_kv_is_zero(c, padded, 10));
  REQUIRE(d_kv_is_zero(c, padded, 11));
  const Case short_list = listed_case(plain_problem(heads), 3, 12, 10, {rows_from_0_to(10)});
  const Gradients unpadded = run_and_compare(run, short_list);
  expect_close("d_q", padded.d_q, unpadded.d_q, 1e-3);
}

inline void junk_is_ignored(const Executor& run, int heads) {
  constexpr std::int32_t kMin = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  const Case c = listed_case(plain_problem(heads), 5, 40, 48,
                             {{40, 3, 41, 17, 2147480000, 2143289344, kMin, 22, 8, -1, 39, kMax, 1},
                              {kMin, 40, 41, 7},
                              {-1, 5,  40, 6,  38, 2147480000, 11, -2, 12, 13, 14, 15, 16, 40, 40, 40, 40, 40,
                               40, 40, 40, 40, 40, 40,         40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 20}});
  const Gradients got = run_and_compare_coarsely(run, c);
  REQUIRE(d_kv_is_zero(c, got, 0));  // what a kernel that clamps -1 would write
}

inline void dead_rows_by_length(const Executor& run, int heads) {
  for (const bool only_dead : {false, true}) {
    const Case c = listed_case(plain_problem(heads), 7, 30, 20, {rows_from_0_to(20)},
                               only_dead ? std::vector<std::int32_t>{0, -1, -64}
                                         : std::vector<std::int32_t>{20, 0, 13, -1, -64, 20});
    const Gradients got = run_and_compare(run, c);
    for (const std::int64_t token : {1, 3, 4}) REQUIRE(d_q_is_zero(c, got, token));
    REQUIRE(d_q_is_zero(c, got, 0) == only_dead);
  }
}

inline void dead_rows_by_indices(const Executor& run, int heads) {
  const Case c =
      listed_case(plain_problem(heads), 5, 30, 20, {{-1}, rows_from_0_to(20), {-1}, {30, 31}, {29}});
  const Gradients got = run_and_compare_coarsely(run, c);
  for (const std::int64_t token : {0, 2, 3}) REQUIRE(d_q_is_zero(c, got, token));
}

inline void dead_rows_hold_anything(const Executor& run, int heads) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool sink_in_lse : {false, true}) {
    Problem problem = plain_problem(heads);
    problem.has_sink = true;
    problem.lse_includes_sink = sink_in_lse;
    Case c = listed_case(problem, 7, 30, 20,
                         {{-1}, rows_from_0_to(20), {-1}, {30}, {-1}, rows_from_0_to(3), {-1}});
    const std::vector<std::int64_t> dead = {0, 2, 3, 4, 6};
    for (std::size_t i = 0; i < dead.size(); ++i) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t row = dead[i] * heads + h;
        c.tensors.lse[static_cast<std::size_t>(row)] = std::array{inf, -inf, nan}[i % 3];
        for (std::int64_t column = 0; column < 512; ++column) {
          c.tensors.o[static_cast<std::size_t>(row * 512 + column)] = i % 2 == 0 ? to_bf16(std::nan("")) : 0;
        }
      }
    }
    const Gradients got = run_and_compare(run, c);
    for (const std::int64_t token : dead) REQUIRE(d_q_is_zero(c, got, token));
  }
}

inline void last_tile_ends_at_length(const Executor& run, int heads) {
  for (const std::int32_t length : {1, 63, 64, 65, 127, 128}) {
    Case c = listed_case(plain_problem(heads), 1, 200, 128, {rows_from_0_to(128)}, {length});
    make_flat(c);
    const Gradients got = run_and_compare_coarsely(run, c);
    expect_part_of_d_o(c, got, 0, 1.0 / length);
    expect_part_of_d_o(c, got, length - 1, 1.0 / length);
    for (std::int64_t row = length; row < 200; ++row) REQUIRE(d_kv_is_zero(c, got, row));
  }
  const Case many =
      listed_case(plain_problem(heads), 70, 200, 128, {rows_from_0_to(128)}, {65, 1, 63, 64, 127, 128});
  run_and_compare(run, many);
}

inline void holes_are_skipped(const Executor& run, int heads) {
  Case c = listed_case(plain_problem(heads), 1, 16, 8, {{5, -1, 9, 2, 3}}, {3});
  make_flat(c);
  const Gradients got = run_and_compare_coarsely(run, c);
  expect_part_of_d_o(c, got, 5, 0.5);
  expect_part_of_d_o(c, got, 9, 0.5);
  for (const std::int64_t row : {0, 2, 3, 15}) REQUIRE(d_kv_is_zero(c, got, row));
}

inline void length_is_clamped_to_topk(const Executor& run, int heads) {
  Case c = listed_case(plain_problem(heads), 2, 130, 128, {rows_from_0_to(128)}, {200});
  const Gradients clamped = run_and_compare(run, c);
  c.tensors.topk_length = {128, 128};
  const Gradients exact = run_and_compare(run, c);
  expect_close("d_q", clamped.d_q, exact.d_q, 1e-3);
}

// Why partial sums are not held to the next case: 15 entries of a list that name the same row add 15 times
// the same.
inline constexpr const char* kAlikeAdditions =
    "fp16 sums of dozens of equal additions are off by up to 8e-3 by the partial-sums study (one repeat is "
    "in "
    "partial_on_cpu_test)";

inline void twice_listed_counts_twice(const Executor& run, int heads) {
  Case c = listed_case(plain_problem(heads), 1, 8, 3, {{3, 3, 5}});
  make_flat(c);
  const Gradients got = run_and_compare_coarsely(run, c);
  expect_part_of_d_o(c, got, 3, 2.0 / 3);
  expect_part_of_d_o(c, got, 5, 1.0 / 3);
  // In one tile, in two, and often.
  std::vector<std::int32_t> often = rows_from_0_to(100);
  for (std::int32_t i = 0; i < 100; ++i) often.push_back(i % 7);
  run_and_compare(run, listed_case(plain_problem(heads), 4, 100, 256, {often}));
}

inline void a_rank_of_a_longer_sequence(const Executor& run, int heads) {
  const std::vector<std::vector<std::int32_t>> lists = {rows_from_0_to(5), rows_from_0_to(6),
                                                        rows_from_0_to(7), rows_from_0_to(8)};
  Problem problem = plain_problem(heads);
  for (const bool causal : {false, true}) {
    problem.causal = causal;
    Case c = listed_case(problem, 4, 8, 8, lists, {}, causal ? 4 : 0);
    make_flat(c);
    set_d_o_of_first_head_to_one(c);
    const Gradients got = run_and_compare_coarsely(run, c);
    const double tolerance = single_rounding_bound(DType::bf16);
    for (const std::int64_t column : {0, 511}) {
      REQUIRE(d_kv_at(c, got, 0, column) == Approx(0.634524).epsilon(tolerance));
      REQUIRE(d_kv_at(c, got, 5, column) == Approx(0.434524).epsilon(tolerance));
      REQUIRE(d_kv_at(c, got, 7, column) == Approx(0.125).epsilon(tolerance));
    }
    REQUIRE(d_kv_at(c, got, 0, 512) == 0);
  }
  Case local = listed_case(problem, 4, 8, 8, lists, {}, 0);
  make_flat(local);
  set_d_o_of_first_head_to_one(local);
  const Gradients got = run_and_compare_coarsely(run, local);
  REQUIRE(d_kv_at(local, got, 0, 0) == Approx(1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4).epsilon(6e-3));
  REQUIRE(d_kv_at(local, got, 3, 0) == Approx(0.25).epsilon(6e-3));
  for (std::int64_t row = 4; row < 8; ++row) REQUIRE(d_kv_is_zero(local, got, row));
}

inline void batch_entries_have_their_own_rows(const Executor& run, int heads) {
  Case c{.problem = plain_problem(heads)};
  c.tensors =
      make_inputs(c.problem, {.batch = 2, .queries = 1, .keys = 4, .topk = 2, .with_forward = false}, 5);
  c.tensors.indices = {-1, -1, 0, -1};
  make_flat(c);
  const Gradients got = run_and_compare_coarsely(run, c);
  for (std::int64_t row = 0; row < 8; ++row) REQUIRE(d_kv_is_zero(c, got, row) == (row != 4));
  expect_part_of_d_o(c, got, 4, 1.0, 1);
}

inline void nothing_to_do_zero_fills(const Executor& run, int heads) {
  Case no_queries{.problem = plain_problem(heads)};
  no_queries.tensors = make_inputs(no_queries.problem, {.queries = 0, .keys = 33, .topk = 64}, 1);
  Case no_keys{.problem = plain_problem(heads)};
  no_keys.tensors = make_inputs(no_keys.problem, {.queries = 3, .keys = 0, .topk = 64}, 1);
  const Case all_dead = listed_case(plain_problem(heads), 3, 33, 64, {{-1, 33, 34}});
  for (const Case* c : {&std::as_const(no_queries), &std::as_const(no_keys), &all_dead}) {
    const Gradients got = run_and_compare(run, *c);
    REQUIRE(std::ssize(got.d_q) == c->tensors.queries * heads * 576);
    REQUIRE(std::ssize(got.d_kv) == c->tensors.keys * 576);
    REQUIRE(is_zero(got.d_q.data(), std::ssize(got.d_q)));
    REQUIRE(is_zero(got.d_kv.data(), std::ssize(got.d_kv)));
  }
}

}  // namespace smla_test

// Name and body of every case here, for a macro that takes both.
#define SMLA_CASES_OF_LISTS(CASE)                                                                           \
  CASE("C1: entries of -1 are ignored and nothing around kv and d_kv is touched", padding_is_ignored)       \
  CASE("C2: rows outside kv are ignored, however far outside", junk_is_ignored)                             \
  CASE("C3: rows whose topk_length is 0 or negative give zeros", dead_rows_by_length)                       \
  CASE("C3: rows that list nothing valid give zeros", dead_rows_by_indices)                                 \
  CASE("C4: dead rows give zeros whatever lse and o hold", dead_rows_hold_anything)                         \
  CASE("C7: entries beyond topk_length do not count, wherever it ends", last_tile_ends_at_length)           \
  CASE("C8: a hole inside topk_length is skipped", holes_are_skipped)                                       \
  CASE("C9: a topk_length above topk is clamped", length_is_clamped_to_topk)                                \
  CASE("C12: an index listed twice counts twice", twice_listed_counts_twice)                                \
  CASE("C18: without queries, keys or valid entries the outputs are zero-filled", nothing_to_do_zero_fills) \
  CASE("C33: query_offset places a rank's rows in the sequence", a_rank_of_a_longer_sequence)               \
  CASE("C34: an index names a row of its own batch entry", batch_entries_have_their_own_rows)
