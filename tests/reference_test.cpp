// The oracle against numbers worked out by hand, against finite differences, and against itself where two
// ways must agree.
#include "reference/reference.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "catch.h"
#include "reference/difference.h"
#include "reference/half.h"
#include "reference/inputs.h"

using namespace smla::core;
using smla_test::Approx;

namespace {

HostTensors zeros(const Problem& p, std::int64_t queries, std::int64_t keys, std::int64_t topk) {
  HostTensors t{.queries = queries, .keys = keys, .topk = topk, .scale = 1};
  t.q.resize(static_cast<std::size_t>(queries * p.heads * p.d_qk()));
  t.kv.resize(static_cast<std::size_t>(keys * p.kv_groups * p.d_qk()));
  t.d_o.resize(static_cast<std::size_t>(queries * p.heads * p.d_v));
  t.indices.resize(static_cast<std::size_t>(queries * p.kv_groups * topk), -1);
  return t;
}

// A forward loss sum(o * d_o) written down once more, plainly, on doubles, to be differentiated numerically.
struct PlainCall {
  Problem problem;
  HostTensors lists;  // lengths, indices, scale
  std::vector<double> q, kv, d_o, sink;

  double loss() const {
    const Problem& p = problem;
    double total = 0;
    for (std::int64_t b = 0; b < lists.batch; ++b) {
      for (std::int64_t s = 0; s < lists.queries; ++s) {
        for (std::int64_t h = 0; h < p.heads; ++h) total += head_loss(b, s, h);
      }
    }
    return total;
  }

  double head_loss(std::int64_t b, std::int64_t s, std::int64_t h) const {
    const Problem& p = problem;
    const std::int64_t g = h * p.kv_groups / p.heads;
    const std::int64_t token = b * lists.queries + s;
    double denominator = p.has_sink ? std::exp(sink[static_cast<std::size_t>(h)]) : 0.0;
    double numerator = 0;
    for (std::int64_t i = 0; i < lists.topk; ++i) {
      if (p.has_topk_length && i >= lists.topk_length[static_cast<std::size_t>(token)]) break;
      const std::int64_t row =
          lists.indices[static_cast<std::size_t>((token * p.kv_groups + g) * lists.topk + i)];
      if (row < 0 || row >= lists.keys || (p.causal && row > s + lists.query_offset)) continue;
      const double* k = kv.data() + ((b * lists.keys + row) * p.kv_groups + g) * p.d_qk();
      const double* x = q.data() + (token * p.heads + h) * p.d_qk();
      const double* grad = d_o.data() + (token * p.heads + h) * p.d_v;
      double score = 0;
      double value = 0;
      for (std::int64_t c = 0; c < p.d_qk(); ++c) score += x[c] * k[c];
      for (std::int64_t c = 0; c < p.d_v; ++c) value += grad[c] * k[c];
      const double weight = std::exp(static_cast<double>(lists.scale) * score);
      denominator += weight;
      numerator += weight * value;
    }
    return denominator == 0 ? 0 : numerator / denominator;
  }
};

std::vector<double> widened(DType dtype, const std::vector<std::uint16_t>& bits) {
  std::vector<double> values;
  for (const std::uint16_t b : bits) values.push_back(static_cast<double>(to_float(dtype, b)));
  return values;
}

void check_derivative(const PlainCall& call, std::vector<double> PlainCall::*tensor,
                      const std::vector<double>& gradient, std::size_t stride) {
  PlainCall moved = call;
  constexpr double kStep = 1e-4;
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < gradient.size(); i += stride) {
    double& x = (moved.*tensor)[i];
    const double at = x;
    x = at + kStep;
    const double up = moved.loss();
    x = at - kStep;
    const double down = moved.loss();
    x = at;
    worst = std::max(worst, std::fabs((up - down) / (2 * kStep) - gradient[i]));
    largest = std::max(largest, std::fabs(gradient[i]));
  }
  INFO("worst " << worst << " of " << largest);
  REQUIRE(largest > 0);
  REQUIRE(worst < 2e-6 * largest);
}

}  // namespace

TEST_CASE("two keys: the gradients of the contract's literal example") {
  const Problem p{.heads = 1, .lse_base = LseBase::e};
  HostTensors t = zeros(p, 1, 2, 2);
  const std::uint16_t one = to_bf16(1.0);
  t.q[0] = t.kv[0] = t.d_o[0] = one;
  t.kv[576 + 575] = one;
  t.indices = {0, 1};
  add_forward(p, t);
  REQUIRE(t.lse[0] == Approx(1.3132617).epsilon(1e-7));
  // The literal numbers are those of an unrounded delta, which a bf16 o cannot give.
  Problem exact = p;
  exact.has_delta = true;
  t.delta = {0.7310586f};
  const Gradients g = backward(exact, t);
  REQUIRE(g.d_q[0] == Approx(0.196612).margin(1e-6));
  REQUIRE(g.d_q[575] == Approx(-0.196612).margin(1e-6));
  REQUIRE(g.d_kv[0] == Approx(0.927671).margin(1e-6));
  REQUIRE(g.d_kv[576] == Approx(0.072329).margin(1e-6));
  double rest = 0;
  for (std::size_t i = 1; i < 575; ++i) rest += std::fabs(g.d_q[i]);
  for (std::size_t i = 1; i < 576; ++i) rest += std::fabs(g.d_kv[i]) + std::fabs(g.d_kv[576 + i]);
  REQUIRE(rest == 0);
}

TEST_CASE("flat: with q = 0 every valid key gets an equal part of d_o") {
  const Problem p{.heads = 2, .lse_base = LseBase::e};
  HostTensors t = make_inputs(p, {.queries = 1, .keys = 7, .topk = 7, .with_forward = false}, 3);
  std::fill(t.q.begin(), t.q.end(), std::uint16_t{0});
  t.indices = {6, 1, -1, 7, 3, 0, std::numeric_limits<std::int32_t>::min()};
  add_forward(p, t);
  REQUIRE(t.lse[1] == Approx(std::log(4.0)));
  const Gradients g = backward(p, t);
  for (std::size_t row = 0; row < 7; ++row) {
    const bool listed = row == 6 || row == 1 || row == 3 || row == 0;
    for (std::size_t c = 0; c < 576; ++c) {
      const double sum =
          c < 512 ? static_cast<double>(bf16_to_float(t.d_o[c]) + bf16_to_float(t.d_o[512 + c])) : 0.0;
      REQUIRE(g.d_kv[row * 576 + c] == Approx(listed ? sum / 4 : 0.0).epsilon(1e-6));
    }
  }
}

TEST_CASE("C21: lse is ln n in base e and log2 n in base 2") {
  Problem p{.heads = 1, .lse_base = LseBase::e};
  HostTensors t = zeros(p, 1, 64, 64);
  for (int i = 0; i < 64; ++i) t.indices[static_cast<std::size_t>(i)] = i;
  REQUIRE(forward(p, t).lse[0] == Approx(4.158883).epsilon(1e-6));
  p.lse_base = LseBase::two;
  REQUIRE(forward(p, t).lse[0] == Approx(6.0).epsilon(1e-6));
}

TEST_CASE("gradients agree with central differences of a plain forward") {
  for (const bool sink_in_lse : {false, true}) {
    for (const bool causal : {false, true}) {
      Problem p{.heads = 4,
                .kv_groups = 2,
                .dtype = DType::fp16,
                .causal = causal,
                .has_sink = true,
                .has_topk_length = true,
                .has_delta = true,
                .lse_base = causal ? LseBase::two : LseBase::e,
                .lse_includes_sink = sink_in_lse};
      HostTensors t = make_inputs(p,
                                  {.batch = 2,
                                   .queries = 3,
                                   .keys = 6,
                                   .topk = 9,
                                   .query_offset = 2,
                                   .junk_share = 0.1,
                                   .duplicate_share = 0.3},
                                  11);
      PlainCall plain{p, t, widened(p.dtype, t.q), widened(p.dtype, t.kv), widened(p.dtype, t.d_o), {}};
      for (const float sink : t.attn_sink) plain.sink.push_back(static_cast<double>(sink));
      // delta and lse in float carry the only rounding; o in fp16 would carry a larger one.
      for (std::int64_t token = 0; token < 6; ++token) {
        for (std::int64_t h = 0; h < 4; ++h) {
          t.delta[static_cast<std::size_t>(token * 4 + h)] =
              static_cast<float>(plain.head_loss(token / 3, token % 3, h));
        }
      }
      const Gradients g = backward(p, t);
      check_derivative(plain, &PlainCall::q, g.d_q, 13);
      check_derivative(plain, &PlainCall::kv, g.d_kv, 13);
      check_derivative(plain, &PlainCall::sink, g.d_sink, 1);
    }
  }
}

TEST_CASE("without has_delta, delta is that of the saved o") {
  Problem p{.heads = 3};
  HostTensors t = make_inputs(p, {.queries = 2, .keys = 20, .topk = 8}, 4);
  t.o = make_inputs(p, {.queries = 2, .keys = 20, .topk = 8, .d_o_rms = 0.5, .with_forward = false}, 77).d_o;
  const Gradients computed = backward(p, t);
  Problem brought = p;
  brought.has_delta = true;
  t.delta = make_delta(p, t);
  REQUIRE(difference(backward(brought, t).d_q, computed.d_q).relative_l2 < 1e-6);
  for (float& delta : t.delta) delta += 1;
  REQUIRE(difference(backward(brought, t).d_q, computed.d_q).relative_l2 > 1e-2);
}

TEST_CASE("C4: dead rows give exact zeros whatever lse and o hold") {
  Problem p{.heads = 2, .has_sink = true};
  HostTensors t = make_inputs(p, {.queries = 3, .keys = 5, .topk = 4}, 6);
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 4; i < 8; ++i) t.indices[i] = -1;
  t.lse[2] = nan;
  t.lse[3] = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 2 * 512; i < 4 * 512; ++i) t.o[i] = to_bf16(static_cast<double>(nan));
  const Gradients g = backward(p, t);
  for (std::size_t i = 0; i < g.d_q.size(); ++i) REQUIRE((g.d_q[i] == 0) == (i / (2 * 576) == 1));
  REQUIRE(difference(g.d_kv, g.d_kv).finite());
  REQUIRE(difference(g.d_sink, g.d_sink).finite());
}

TEST_CASE("sampled tokens and rows are those of the full backward, in the order asked for") {
  const Problem p{.heads = 6, .kv_groups = 2, .causal = true, .has_sink = true};
  const HostTensors t = make_inputs(
      p, {.batch = 2, .queries = 5, .keys = 40, .topk = 17, .query_offset = 30, .duplicate_share = 0.2}, 8);
  const Gradients all = backward(p, t);
  const std::vector<std::int64_t> tokens = {9, 0, 3};
  const std::vector<std::int64_t> rows = {79, 3, 41, 3};
  const Gradients some = backward_rows(p, t, tokens, rows);
  const std::size_t d_q_size = 6 * 576;
  const std::size_t d_kv_size = 2 * 576;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto* want = all.d_q.data() + static_cast<std::size_t>(tokens[i]) * d_q_size;
    REQUIRE(std::equal(want, want + d_q_size, some.d_q.data() + i * d_q_size));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto* want = all.d_kv.data() + static_cast<std::size_t>(rows[i]) * d_kv_size;
    const double* got = some.d_kv.data() + i * d_kv_size;
    REQUIRE(difference({got, d_kv_size}, {want, d_kv_size}).relative_l2 < 1e-13);
  }
  REQUIRE(some.d_sink == all.d_sink);
  REQUIRE_THROWS_WITH(backward_rows(p, t, std::vector<std::int64_t>{10}, {}),
                      smla_test::contains("token = 10"));
}

TEST_CASE("a tensor of another size than its shape is refused by name") {
  const Problem p{.heads = 2};
  HostTensors t = make_inputs(p, {.queries = 2, .keys = 3, .topk = 2}, 1);
  t.lse.pop_back();
  REQUIRE_THROWS_WITH(backward(p, t), smla_test::contains("lse holds 3 elements where its shape has 4"));
  t.kv.push_back(0);
  REQUIRE_THROWS_WITH(forward(p, t), smla_test::contains("kv holds"));
}

TEST_CASE("a difference looks for NaN and inf before it measures") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> want = {3, 4, 0};
  REQUIRE(difference(std::vector<double>{3, 4, 0}, want).relative_l2 == 0);
  REQUIRE(difference(std::vector<double>{3, 4, 0.5}, want).relative_l2 == Approx(0.1));
  REQUIRE(difference(std::vector<double>{3, 4, 0.5}, want).worst == 2);
  const Difference bad = difference(std::vector<double>{3, std::nan(""), 0}, want);
  REQUIRE(!bad.finite());
  REQUIRE(bad.first_non_finite == 1);
  REQUIRE(bad.relative_l2 == inf);
  REQUIRE(difference(std::vector<double>{1}, std::vector<double>{0}).relative_l2 == inf);
  REQUIRE(difference(std::vector<double>{inf}, std::vector<double>{inf}).finite());
  REQUIRE(!difference(std::vector<double>{-inf}, std::vector<double>{inf}).finite());
}
