#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "reference/call.h"
#include "reference/half.h"
#include "reference/parallel.h"
#include "reference/products.h"
#include "reference/reference.h"

namespace smla::core {
namespace {

using namespace reference;

// What the backward knows of every (token, head) before it looks at a kv row.
struct RowState {
  std::vector<double> log_denominator;  // L, natural, with the sink in it
  std::vector<double> delta;
  std::vector<char> alive;  // [B, S, G]: the list has a valid entry
};

RowState row_state(const Call& call) {
  const Problem& p = call.problem;
  const HostTensors& t = call.tensors;
  const std::int64_t tokens = t.batch * t.queries;
  RowState state{std::vector<double>(t.lse.size()), std::vector<double>(t.lse.size()),
                 std::vector<char>(size(tokens * p.kv_groups))};
  parallel_for(tokens, [&](std::int64_t token) {
    for (std::int64_t g = 0; g < p.kv_groups; ++g) {
      state.alive[size(token * p.kv_groups + g)] =
          !attended_rows(p, t, token / t.queries, token % t.queries, g).empty();
    }
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::size_t at = size(token * p.heads + h);
      double lse = static_cast<double>(t.lse[at]);
      if (p.lse_base == LseBase::two) lse *= kLn2;
      const bool add_sink = p.has_sink && !p.lse_includes_sink;
      state.log_denominator[at] =
          add_sink ? log_add_exp(lse, static_cast<double>(t.attn_sink[size(h)])) : lse;
      state.delta[at] =
          p.has_delta ? static_cast<double>(t.delta[at]) : delta_of_row(p, t, token * p.heads + h);
    }
  });
  return state;
}

// One token's heads of one group against some kv rows: operands in double, P and dS of the last rows given.
class TokenBlock {
 public:
  TokenBlock(const Call& call, const RowState& state) : call_(call), state_(state) {}

  void load(std::int64_t token, std::int64_t g) {
    const Problem& p = call_.problem;
    first_ = call_.head_row(token, g);
    q_.resize(size(heads() * p.d_qk()));
    d_o_.resize(size(heads() * p.d_v));
    widen(p.dtype, call_.tensors.q.data() + first_ * p.d_qk(), heads() * p.d_qk(), q_.data());
    widen(p.dtype, call_.tensors.d_o.data() + first_ * p.d_v, heads() * p.d_v, d_o_.data());
  }

  void differentiate(const double* const* rows, std::int64_t count) {
    const Problem& p = call_.problem;
    const double scale = static_cast<double>(call_.tensors.scale);
    count_ = count;
    p_.resize(size(heads() * count));
    d_s_.resize(size(heads() * count));
    dot_products(q_.data(), p.d_qk(), heads(), rows, count, p.d_qk(), p_.data(), count);
    dot_products(d_o_.data(), p.d_v, heads(), rows, count, p.d_v, d_s_.data(), count);
    for (std::int64_t h = 0; h < heads(); ++h) {
      const double log_denominator = state_.log_denominator[size(first_ + h)];
      const double delta = state_.delta[size(first_ + h)];
      for (std::int64_t j = 0; j < count; ++j) {
        double& probability = p_[size(h * count + j)];
        double& d_score = d_s_[size(h * count + j)];
        probability = std::exp(scale * probability - log_denominator);
        d_score = scale * probability * (d_score - delta);
      }
    }
  }

  // d_q of the heads, one row each, += dS K.
  void add_to_d_q(double* d_q, const double* const* rows) const {
    const std::int64_t d_qk = call_.problem.d_qk();
    std::vector<double*> outs;
    for (std::int64_t h = 0; h < heads(); ++h) outs.push_back(d_q + h * d_qk);
    add_weighted_rows(outs.data(), heads(), d_s_.data(), count_, 1, rows, count_, d_qk);
  }

  // d_kv of the rows += dS^T Q, and its first d_v columns += P^T dO.
  void add_to_d_kv(double* const* d_kv_rows) const {
    const Problem& p = call_.problem;
    std::vector<const double*> q_rows, d_o_rows;
    for (std::int64_t h = 0; h < heads(); ++h) {
      q_rows.push_back(q_.data() + h * p.d_qk());
      d_o_rows.push_back(d_o_.data() + h * p.d_v);
    }
    add_weighted_rows(d_kv_rows, count_, d_s_.data(), 1, count_, q_rows.data(), heads(), p.d_qk());
    add_weighted_rows(d_kv_rows, count_, p_.data(), 1, count_, d_o_rows.data(), heads(), p.d_v);
  }

 private:
  std::int64_t heads() const { return call_.problem.heads_per_group(); }

  const Call& call_;
  const RowState& state_;
  std::int64_t first_ = 0;  // (token, head) row of the group's first head
  std::int64_t count_ = 0;  // kv rows of the last differentiate
  std::vector<double> q_, d_o_, p_, d_s_;
};

void d_q_of_token(const Call& call, const RowState& state, std::int64_t token, double* d_q) {
  const Problem& p = call.problem;
  constexpr std::int64_t kChunk = 256;  // rows whose P and dS fit a core's cache
  TokenBlock block(call, state);
  for (std::int64_t g = 0; g < p.kv_groups; ++g) {
    const auto rows = call.kv_rows(token / call.tensors.queries, token % call.tensors.queries, g);
    const auto count = static_cast<std::int64_t>(rows.size());
    if (count == 0) continue;  // a dead row: exactly 0, whatever o and lse hold
    block.load(token, g);
    for (std::int64_t j = 0; j < count; j += kChunk) {
      block.differentiate(rows.data() + j, std::min(kChunk, count - j));
      block.add_to_d_q(d_q + g * p.heads_per_group() * p.d_qk(), rows.data() + j);
    }
  }
}

// Who lists a kv row: the requested rows are cut into blocks, and a block has its own list of (token, row)
// pairs, in the order of tokens, so that a token's operands are widened once a block.
struct Listing {
  std::int64_t token;
  std::int64_t sample;  // position in the requested rows
};
constexpr std::int64_t kRowsPerBlock = 16;

std::vector<std::vector<Listing>> listings_of_group(const Call& call, std::span<const std::int64_t> rows,
                                                    std::int64_t g) {
  const HostTensors& t = call.tensors;
  std::vector<std::vector<std::int64_t>> samples_of(size(t.batch * t.keys));  // a row may be asked for twice
  for (std::size_t i = 0; i < rows.size(); ++i)
    samples_of[size(rows[i])].push_back(static_cast<std::int64_t>(i));
  std::vector<std::vector<Listing>> blocks((rows.size() + kRowsPerBlock - 1) / kRowsPerBlock);
  for (std::int64_t token = 0; token < t.batch * t.queries; ++token) {
    const std::int64_t b = token / t.queries;
    for (const std::int32_t row : attended_rows(call.problem, t, b, token % t.queries, g)) {
      for (const std::int64_t sample : samples_of[size(b * t.keys + row)]) {
        blocks[size(sample / kRowsPerBlock)].push_back({token, sample});
      }
    }
  }
  return blocks;
}

void d_kv_of_block(const Call& call, const RowState& state, const std::vector<Listing>& listings,
                   std::span<const std::int64_t> rows, std::int64_t g, std::vector<double>& d_kv) {
  const Problem& p = call.problem;
  const HostTensors& t = call.tensors;
  TokenBlock block(call, state);
  std::vector<const double*> kv_rows;
  std::vector<double*> d_kv_rows;
  for (auto it = listings.begin(); it != listings.end();) {
    const std::int64_t token = it->token;
    kv_rows.clear();
    d_kv_rows.clear();
    for (; it != listings.end() && it->token == token; ++it) {
      const std::int64_t row = rows[size(it->sample)];
      kv_rows.push_back(call.kv_row(row / t.keys, row % t.keys, g));
      d_kv_rows.push_back(d_kv.data() + (it->sample * p.kv_groups + g) * p.d_qk());
    }
    block.load(token, g);
    block.differentiate(kv_rows.data(), static_cast<std::int64_t>(kv_rows.size()));
    block.add_to_d_kv(d_kv_rows.data());
  }
}

std::vector<double> d_sink_of(const Call& call, const RowState& state) {
  const Problem& p = call.problem;
  const HostTensors& t = call.tensors;
  std::vector<double> d_sink(p.has_sink ? size(p.heads) : 0, 0.0);
  for (std::int64_t token = 0; token < t.batch * t.queries; ++token) {
    for (std::int64_t h = 0; p.has_sink && h < p.heads; ++h) {
      if (!state.alive[size(token * p.kv_groups + h / p.heads_per_group())]) continue;
      const std::size_t at = size(token * p.heads + h);
      const double sink = static_cast<double>(t.attn_sink[size(h)]);
      d_sink[size(h)] -= std::exp(sink - state.log_denominator[at]) * state.delta[at];
    }
  }
  return d_sink;
}

void expect_inside(std::span<const std::int64_t> positions, std::int64_t count, const char* what) {
  for (const std::int64_t position : positions) {
    if (position < 0 || position >= count) {
      fail(Status::invalid_argument, "sampled {} = {} is not in [0, {})", what, position, count);
    }
  }
}

}  // namespace

Gradients backward(const Problem& p, const HostTensors& t) {
  std::vector<std::int64_t> tokens(size(t.batch * t.queries));
  std::vector<std::int64_t> rows(size(t.batch * t.keys));
  std::iota(tokens.begin(), tokens.end(), 0);
  std::iota(rows.begin(), rows.end(), 0);
  return backward_rows(p, t, tokens, rows);
}

Gradients backward_rows(const Problem& p, const HostTensors& t, std::span<const std::int64_t> tokens,
                        std::span<const std::int64_t> rows) {
  validate(p, t, true);
  expect_inside(tokens, t.batch * t.queries, "token");
  expect_inside(rows, t.batch * t.keys, "kv row");
  const Call call(p, t);
  const RowState state = row_state(call);
  Gradients result{std::vector<double>(tokens.size() * size(std::int64_t{p.heads} * p.d_qk()), 0.0),
                   std::vector<double>(rows.size() * size(std::int64_t{p.kv_groups} * p.d_qk()), 0.0),
                   d_sink_of(call, state)};
  parallel_for(static_cast<std::int64_t>(tokens.size()), [&](std::int64_t i) {
    d_q_of_token(call, state, tokens[size(i)], result.d_q.data() + i * p.heads * p.d_qk());
  });
  for (std::int64_t g = 0; g < p.kv_groups; ++g) {
    const auto blocks = listings_of_group(call, rows, g);
    parallel_for(static_cast<std::int64_t>(blocks.size()),
                 [&](std::int64_t i) { d_kv_of_block(call, state, blocks[size(i)], rows, g, result.d_kv); });
  }
  return result;
}

}  // namespace smla::core
