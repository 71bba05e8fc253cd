#include <algorithm>
#include <cmath>

#include "reference/call.h"
#include "reference/half.h"
#include "reference/parallel.h"
#include "reference/products.h"
#include "reference/reference.h"

namespace smla::core {
namespace {

using namespace reference;

// One head's softmax over scores[0 .. count): turned into probabilities in place; lse goes out as it is
// saved.
double softmax(double* scores, std::int64_t count, double scale, const float* sink, bool lse_includes_sink) {
  double high = -kInfinity;
  for (std::int64_t j = 0; j < count; ++j) high = std::max(high, scores[j] *= scale);
  double sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += std::exp(scores[j] - high);
  const double lse = count == 0 ? -kInfinity : high + std::log(sum);
  const double denominator = sink ? log_add_exp(lse, static_cast<double>(*sink)) : lse;
  for (std::int64_t j = 0; j < count; ++j) scores[j] = std::exp(scores[j] - denominator);
  return lse_includes_sink ? denominator : lse;
}

void forward_token(const Call& call, std::int64_t token, std::int64_t g, Forward& result) {
  const Problem& p = call.problem;
  const HostTensors& t = call.tensors;
  const std::int64_t heads = p.heads_per_group();
  const std::int64_t first = call.head_row(token, g);
  const auto rows = call.kv_rows(token / t.queries, token % t.queries, g);
  const auto count = static_cast<std::int64_t>(rows.size());

  std::vector<double> q(size(heads * p.d_qk()));
  std::vector<double> weights(size(heads * count));
  widen(p.dtype, t.q.data() + first * p.d_qk(), heads * p.d_qk(), q.data());
  dot_products(q.data(), p.d_qk(), heads, rows.data(), count, p.d_qk(), weights.data(), count);
  for (std::int64_t h = 0; h < heads; ++h) {
    const float* sink = p.has_sink ? &t.attn_sink[size(g * heads + h)] : nullptr;
    const double lse =
        softmax(weights.data() + h * count, count, static_cast<double>(t.scale), sink, p.lse_includes_sink);
    result.lse[size(first + h)] = static_cast<float>(p.lse_base == LseBase::two ? lse / kLn2 : lse);
  }

  std::vector<double> o(size(heads * p.d_v), 0.0);
  std::vector<double*> outs;
  for (std::int64_t h = 0; h < heads; ++h) outs.push_back(o.data() + h * p.d_v);
  add_weighted_rows(outs.data(), heads, weights.data(), count, 1, rows.data(), count, p.d_v);
  std::transform(o.begin(), o.end(), result.o.begin() + first * p.d_v,
                 [&p](double value) { return to_operand(p.dtype, value); });
}

}  // namespace

Forward forward(const Problem& p, const HostTensors& t) {
  validate(p, t, false);
  const Call call(p, t);
  const std::int64_t tokens = t.batch * t.queries;
  Forward result{std::vector<std::uint16_t>(size(tokens * p.heads * p.d_v)),
                 std::vector<float>(size(tokens * p.heads))};
  parallel_for(tokens, [&](std::int64_t token) {
    for (std::int64_t g = 0; g < p.kv_groups; ++g) forward_token(call, token, g, result);
  });
  return result;
}

std::vector<float> make_delta(const Problem& p, const HostTensors& t) {
  std::vector<float> delta(size(t.batch * t.queries * p.heads));
  parallel_for(t.batch * t.queries, [&](std::int64_t token) {
    for (std::int64_t row = token * p.heads; row < (token + 1) * p.heads; ++row) {
      delta[size(row)] = static_cast<float>(delta_of_row(p, t, row));
    }
  });
  return delta;
}

}  // namespace smla::core
