// The cases of the contract on the reference itself: literal numbers hold, so the oracle is right. Then
// executors that are wrong in the ways of real kernels: a case that does not notice is worth nothing.
#include <array>
#include <set>

#include "cases_of_layouts.h"
#include "cases_of_lists.h"
#include "cases_of_numbers.h"
#include "cases_of_options.h"
#include "catch.h"
#include "contract_case.h"

using namespace smla_test;

namespace {

Outputs on_reference(const Case& c) {
  return rounded(c.problem, backward(c.problem, c.tensors));
}

struct Noticed {};

// Runs a body with an executor that changes the call before the reference sees it, and expects the outputs to
// differ from the right ones by far more than any bound allows.
template <class Change>
bool notices(CaseBody body, Change change) {
  const Executor wrong = [&](const Case& c) {
    Case changed = c;
    change(changed);
    const Gradients got = backward(changed.problem, changed.tensors);
    const Gradients want = backward(c.problem, c.tensors);
    if (!(difference(got.d_q, want.d_q).relative_l2 < 2e-2) ||
        !(difference(got.d_kv, want.d_kv).relative_l2 < 2e-2) ||
        !(difference(got.d_sink, want.d_sink).relative_l2 < 2e-2)) {
      throw Noticed{};
    }
    return rounded(c.problem, got);
  };
  try {
    body(wrong, 1);
  } catch (const Noticed&) {
    return true;
  }
  return false;
}

}  // namespace

#define SMLA_REFERENCE_CASE(name, body) \
  TEST_CASE(name) {                     \
    body(on_reference, 3);              \
  }

SMLA_CASES_OF_LISTS(SMLA_REFERENCE_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_REFERENCE_CASE)
SMLA_CASES_OF_LAYOUTS(SMLA_REFERENCE_CASE)

TEST_CASE("C28: a kernel that clamps -1 to row 0 is noticed") {
  const auto clamp = [](Case& c) {
    for (std::int32_t& row : c.tensors.indices) row = std::max(row, 0);
  };
  REQUIRE(notices(padding_is_ignored, clamp));
  REQUIRE(notices(junk_is_ignored, clamp));
  REQUIRE(notices(holes_are_skipped, clamp));
}

TEST_CASE("C28: a kernel that leaves out the sink, or adds it twice, is noticed") {
  REQUIRE(notices(sinks, [](Case& c) { c.tensors.attn_sink.assign(c.tensors.attn_sink.size(), -100.0f); }));
  REQUIRE(notices(sinks, [](Case& c) { c.problem.lse_includes_sink = !c.problem.lse_includes_sink; }));
}

TEST_CASE("C28: a kernel that reads lse in the other base is noticed") {
  REQUIRE(notices(lse_bases, [](Case& c) {
    c.problem.lse_base = c.problem.lse_base == LseBase::e ? LseBase::two : LseBase::e;
  }));
}

TEST_CASE("C28: a kernel that drops the last partial tile is noticed") {
  REQUIRE(notices(last_tile_ends_at_length, [](Case& c) {
    for (std::int32_t& length : c.tensors.topk_length) length -= length % 64;
  }));
}

TEST_CASE(
    "C28: a kernel that ignores query_offset, the scale, delta, or the order of batch entries is noticed") {
  REQUIRE(notices(a_rank_of_a_longer_sequence, [](Case& c) { c.tensors.query_offset = 0; }));
  REQUIRE(notices(scale_is_an_argument, [](Case& c) { c.tensors.scale = 1.0f / 24; }));
  REQUIRE(notices(delta_of_the_saved_o, [](Case& c) {
    Case forwarded = c;
    add_forward(forwarded.problem, forwarded.tensors);
    c.tensors.o = forwarded.tensors.o;
    c.tensors.delta = forwarded.tensors.delta;
  }));
  REQUIRE(notices(batch_entries_have_their_own_rows,
                  [](Case& c) { std::swap(c.tensors.indices[0], c.tensors.indices[2]); }));
}

TEST_CASE("C28: a kernel that counts an index listed twice once is noticed") {
  REQUIRE(notices(twice_listed_counts_twice, [](Case& c) {
    for (std::size_t i = 1; i < c.tensors.indices.size(); ++i) {
      if (c.tensors.indices[i] == c.tensors.indices[i - 1]) c.tensors.indices[i] = -1;
    }
  }));
}

TEST_CASE("option cases let every two settings of two options meet") {
  const std::vector<int> levels = {2, 3, 3, 2, 2, 2, 4};
  const auto rows = covering_rows(levels);
  std::set<std::array<int, 4>> met;
  for (const auto& row : rows) {
    for (std::size_t p = 0; p < levels.size(); ++p) {
      REQUIRE(row[p] >= 0);
      REQUIRE(row[p] < levels[p]);
      for (std::size_t r = 0; r < p; ++r)
        met.insert({static_cast<int>(p), row[p], static_cast<int>(r), row[r]});
    }
  }
  std::size_t pairs = 0;
  for (std::size_t p = 0; p < levels.size(); ++p) {
    for (std::size_t r = 0; r < p; ++r) pairs += static_cast<std::size_t>(levels[p] * levels[r]);
  }
  REQUIRE(met.size() == pairs);
  REQUIRE(rows.size() < 20);  // 12 at least, 576 without the greed
  REQUIRE(rows == covering_rows(levels));
}

TEST_CASE("option cases hold every option and a reference that is finite and not zero") {
  bool fp16 = false;
  for (const Case& c : option_cases(2)) {
    fp16 = fp16 || c.problem.dtype == DType::fp16;
    REQUIRE_NOTHROW(validate(c.problem));
    const Gradients g = backward(c.problem, c.tensors);
    for (const auto* tensor : {&g.d_q, &g.d_kv}) {
      REQUIRE(difference(*tensor, *tensor).finite());
      REQUIRE(!is_zero(tensor->data(), std::ssize(*tensor)));
    }
    REQUIRE(g.d_sink.empty() == !c.problem.has_sink);
  }
  REQUIRE(fp16);
}
