// What the gradients are, down to their digits.
#pragma once

#include <cmath>

#include "cases_of_lists.h"
#include "contract_case.h"

namespace smla_test {

inline void two_keys(const Executor& run, int heads) {
  Case c{.problem = plain_problem(heads)};
  c.tensors =
      make_inputs(c.problem, {.queries = 1, .keys = 2, .topk = 2, .scale = 1, .with_forward = false}, 1);
  for (auto* tensor : {&c.tensors.q, &c.tensors.kv, &c.tensors.d_o})
    std::fill(tensor->begin(), tensor->end(), 0);
  c.tensors.indices = {0, 1};
  c.tensors.q[0] = c.tensors.kv[0] = c.tensors.d_o[0] = c.tensors.kv[576 + 575] = to_bf16(1.0);
  add_forward(c.problem, c.tensors);
  REQUIRE(c.tensors.lse[0] == Approx(1.3132617));
  const Gradients got = run_and_compare_coarsely(run, c);
  const double tolerance =
      2 * single_rounding_bound(DType::bf16);  // of the saved o as well, which delta has from
  REQUIRE(got.d_q[0] == Approx(0.196612).epsilon(tolerance));
  REQUIRE(got.d_q[575] == Approx(-0.196612).epsilon(tolerance));
  REQUIRE(d_kv_at(c, got, 0, 0) == Approx(0.927671).epsilon(tolerance));
  // The difference of P = 0.268941 and dS = 0.196612, each rounded to its own last bit.
  REQUIRE(d_kv_at(c, got, 1, 0) == Approx(0.072329).margin(tolerance * (0.268941 + 0.196612)));
  REQUIRE(is_zero(got.d_q.data() + 1, 574));
  REQUIRE(is_zero(got.d_q.data() + 576, std::ssize(got.d_q) - 576));
  REQUIRE(is_zero(got.d_kv.data() + 1, 575));
  REQUIRE(is_zero(got.d_kv.data() + 577, 575));
}

inline void flat_rows(const Executor& run, int heads) {
  for (const std::int32_t n : {1, 10, 64, 100}) {
    Case c = listed_case(plain_problem(heads), 1, 128, 100, {rows_from_0_to(n)});
    make_flat(c);
    REQUIRE(c.tensors.lse[0] == Approx(std::log(static_cast<double>(n))).margin(1e-7));
    const Gradients got = run_and_compare_coarsely(run, c);
    for (std::int64_t row = 0; row < n; ++row) expect_part_of_d_o(c, got, row, 1.0 / n);
    for (std::int64_t row = n; row < 128; ++row) REQUIRE(d_kv_is_zero(c, got, row));
  }
}

inline void lse_bases(const Executor& run, int heads) {
  for (const LseBase base : {LseBase::e, LseBase::two}) {
    Problem problem = plain_problem(heads);
    problem.lse_base = base;
    Case c = listed_case(problem, 1, 64, 64, {rows_from_0_to(64)});
    make_flat(c);
    REQUIRE(c.tensors.lse[0] == Approx(base == LseBase::e ? 4.158883 : 6.0));
    const Gradients got = run_and_compare_coarsely(run, c);
    expect_part_of_d_o(c, got, 17, 1.0 / 64);
  }
}

inline void sinks(const Executor& run, int heads) {
  for (const bool sink_in_lse : {false, true}) {
    Problem problem = plain_problem(heads);
    problem.has_sink = true;
    problem.lse_includes_sink = sink_in_lse;
    Case c = listed_case(problem, 1, 64, 64, {rows_from_0_to(64)});
    std::fill(c.tensors.q.begin(), c.tensors.q.end(), 0);
    for (std::size_t i = 0; i < c.tensors.kv.size(); ++i) {
      if (i % 576 < 512) c.tensors.kv[i] = to_bf16(1.0);
    }
    std::fill(c.tensors.attn_sink.begin(), c.tensors.attn_sink.end(), std::log(64.0f));
    set_d_o_of_first_head_to_one(c);
    const Gradients got = run_and_compare_coarsely(run, c);
    REQUIRE(d_kv_at(c, got, 5, 100) == Approx(1.0 / 128).epsilon(1e-3));
    REQUIRE(got.d_sink[0] == Approx(-128.0).epsilon(1e-3));
    run_and_compare(run, listed_case(problem, 5, 300, 70, {rows_from_0_to(70), rows_from_0_to(40)}));
  }
}

inline void delta_of_the_saved_o(const Executor& run, int heads) {
  for (const bool brought : {false, true}) {
    Problem problem = plain_problem(heads);
    problem.has_delta = brought;
    Case c{.problem = problem};
    const InputOptions options{.queries = 6, .keys = 90, .topk = 50};
    c.tensors = make_inputs(problem, options, 2);
    // An o that no forward made: whoever computes delta in another way than from it is far off.
    InputOptions other = options;
    other.with_forward = false;
    other.d_o_rms = 0.3;
    c.tensors.o = make_inputs(problem, other, 3).d_o;
    if (brought) {
      c.tensors.delta = make_delta(problem, c.tensors);
      for (float& delta : c.tensors.delta) delta += 3;
    }
    run_and_compare(run, c);
  }
}

inline void d_s_is_rounded_once(const Executor& run, int heads) {
  Problem problem = plain_problem(heads);
  problem.dtype = DType::fp16;
  Case c{.problem = problem};
  c.tensors = make_inputs(problem, {.queries = 24, .keys = 400, .topk = 200, .d_o_rms = 256}, 4);
  const Outputs outputs = run(c);
  const Gradients want = backward(problem, c.tensors);
  expect_matches(c, outputs, want, accuracy_bound(DType::fp16));
  // Two roundings, of dS and of the output, are 2.9e-4; a third would make it 3.6e-4.
  expect_close("d_q", widened(problem, outputs).d_q, want.d_q, 3.3e-4);
}

inline void scale_is_an_argument(const Executor& run, int heads) {
  Case c{.problem = plain_problem(heads)};
  c.tensors =
      make_inputs(c.problem, {.queries = 6, .keys = 90, .topk = 50, .scale = 1 / std::sqrt(192.0f)}, 5);
  run_and_compare(run, c);
}

// P is 1 at one key, so that d_q is a difference of equal sums.
inline Case one_hot_case(const Problem& problem) {
  Case c{.problem = problem};
  c.tensors = make_inputs(c.problem, {.queries = 6, .keys = 300, .topk = 200, .q_rms = 200}, 6);
  return c;
}

// The opposite sign of every key's logit, 600 and -600, in one list.
inline Case case_of_logits_of_600(const Problem& problem) {
  Case c{.problem = problem};
  c.tensors =
      make_inputs(c.problem, {.queries = 3, .keys = 130, .topk = 130, .scale = 1, .with_forward = false}, 7);
  const auto number = [&](double value) { return to_operand(problem.dtype, value); };
  const auto heads_size = static_cast<std::size_t>(problem.heads) * 576;
  for (std::size_t i = 0; i < c.tensors.q.size(); ++i) {
    c.tensors.q[i] = i % 576 == 575 ? number(i / heads_size == 0 ? 600 : -600) : std::uint16_t{0};
  }
  for (std::size_t row = 0; row < 130; ++row) c.tensors.kv[row * 576 + 575] = number(row % 2 == 0 ? 1 : -1);
  add_forward(c.problem, c.tensors);
  return c;
}

inline Case case_of_equal_keys(const Problem& problem) {
  Case c{.problem = problem};
  c.tensors = make_inputs(c.problem, {.queries = 3, .keys = 130, .topk = 130, .with_forward = false}, 8);
  for (std::size_t i = 576; i < c.tensors.kv.size(); ++i) c.tensors.kv[i] = c.tensors.kv[i % 576];
  add_forward(c.problem, c.tensors);
  return c;
}

inline void extreme_logits(const Executor& run, int heads) {
  run_and_compare_coarsely(run, one_hot_case(plain_problem(heads)));
}

inline void logits_of_600(const Executor& run, int heads) {
  const Case c = case_of_logits_of_600(plain_problem(heads));
  REQUIRE(c.tensors.lse[0] > 600);
  run_and_compare_coarsely(run, c);
}

inline void equal_keys(const Executor& run, int heads) {
  run_and_compare_coarsely(run, case_of_equal_keys(plain_problem(heads)));
}

inline void small_and_large_d_o(const Executor& run, int heads) {
  for (const double rms : {1e-8, 1e4}) {
    Case c{.problem = plain_problem(heads)};
    c.tensors = make_inputs(c.problem, {.queries = 6, .keys = 300, .topk = 100, .d_o_rms = rms}, 9);
    run_and_compare(run, c);
  }
}

// Rows that no list names may hold anything, and so may rows that are listed behind topk_length.
inline void unlisted_rows_may_hold_nan(const Executor& run, int heads) {
  Case c = listed_case(plain_problem(heads), 3, 40, 48, {rows_from_0_to(40)}, {20, 7, 1});
  for (std::size_t i = 20 * 576; i < 40 * 576; ++i) c.tensors.kv[i] = 0x7fc0;
  run_and_compare_coarsely(run, c);
}

}  // namespace smla_test

#define SMLA_CASES_OF_NUMBERS(CASE)                                                        \
  CASE("two keys: the literal gradients of the contract", two_keys)                        \
  CASE("flat: with q = 0 every key gets an equal part of d_o", flat_rows)                  \
  CASE("C21: lse is read in its declared base", lse_bases)                                 \
  CASE("C22: a sink takes its share, with lse that holds it and lse that does not", sinks) \
  CASE("C24: delta is that of the saved o, or the caller's", delta_of_the_saved_o)         \
  CASE("C25: dS is rounded once, after the scale", d_s_is_rounded_once)                    \
  CASE("C27: the scale is the caller's", scale_is_an_argument)                             \
  CASE("logits of several hundred give finite gradients", extreme_logits)                  \
  CASE("logits of 600 and -600 in one list give finite gradients", logits_of_600)          \
  CASE("equal keys share their gradient", equal_keys)                                      \
  CASE("d_o of 1e-8 and of 1e4 give gradients as exact as others", small_and_large_d_o)    \
  CASE("rows of kv that no valid entry names may hold NaN", unlisted_rows_may_hold_nan)
