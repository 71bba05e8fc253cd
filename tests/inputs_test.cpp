#include "reference/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "base/error.h"
#include "catch.h"
#include "reference/half.h"
#include "reference/random.h"
#include "reference/reference.h"

using namespace smla::core;
using smla_test::Approx;
using smla_test::contains;

namespace {

const std::int32_t* list_of(const std::vector<std::int32_t>& lists, std::int64_t list, std::int64_t topk) {
  return lists.data() + list * topk;
}

std::set<std::int32_t> rows_below(const std::int32_t* list, std::int64_t topk, std::int64_t keys) {
  std::set<std::int32_t> rows;
  for (std::int64_t i = 0; i < topk; ++i) {
    if (list[i] >= 0 && list[i] < keys) rows.insert(list[i]);
  }
  return rows;
}

}  // namespace

TEST_CASE("random_normal has mean 0 and variance 1") {
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 200000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = random_normal(7, i);
    sum += x;
    squares += x * x;
  }
  REQUIRE(std::fabs(sum / kCount) < 0.01);
  REQUIRE(std::fabs(squares / kCount - 1) < 0.01);
}

TEST_CASE("permuted reaches every row exactly once, for any count") {
  for (const std::int64_t count : {1, 2, 3, 5, 16, 100, 1000, 4097}) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < count; ++i) seen.insert(permuted(3, i, count));
    REQUIRE(std::ssize(seen) == count);
    REQUIRE(*seen.begin() == 0);
    REQUIRE(*seen.rbegin() == count - 1);
  }
}

TEST_CASE("the same seed gives the same inputs and another seed gives others") {
  const Problem problem{.heads = 2, .has_sink = true, .has_topk_length = true, .has_delta = true};
  const InputOptions options{.queries = 3, .keys = 9, .topk = 5};
  const HostTensors once = make_inputs(problem, options, 1);
  REQUIRE(once == make_inputs(problem, options, 1));
  const HostTensors other = make_inputs(problem, options, 2);
  REQUIRE(once.q != other.q);
  REQUIRE(once.indices != other.indices);
  REQUIRE(once.attn_sink != other.attn_sink);
  REQUIRE_NOTHROW(validate(problem, once, true));
}

TEST_CASE("random lists hold different rows and S_kv where there are no more") {
  const Problem problem{.heads = 1, .kv_groups = 1};
  const auto lists = make_lists(problem, {.queries = 4, .keys = 10, .topk = 16}, 5);
  for (std::int64_t s = 0; s < 4; ++s) {
    const std::int32_t* list = list_of(lists, s, 16);
    REQUIRE(rows_below(list, 16, 10).size() == 10);
    REQUIRE(std::count(list, list + 16, 10) == 6);
  }
  REQUIRE(!std::equal(lists.begin(), lists.begin() + 10, lists.begin() + 16));
}

TEST_CASE("a causal list of row t holds min(topk, max(1, t)) different rows below max(1, t)") {
  const Problem problem{.heads = 1};
  const auto lists =
      make_lists(problem, {.queries = 12, .keys = 40, .topk = 8, .lists = ListKind::causal}, 5);
  for (std::int64_t s = 0; s < 12; ++s) {
    const std::int64_t rows = std::max<std::int64_t>(1, s);
    const auto drawn = rows_below(list_of(lists, s, 8), 8, rows);
    REQUIRE(std::ssize(drawn) == std::min<std::int64_t>(8, rows));
    const std::int32_t* list = list_of(lists, s, 8);
    REQUIRE(std::count(list, list + 8, 40) == 8 - std::ssize(drawn));
  }
}

TEST_CASE("neighbours have the asked share of their lists in common") {
  const Problem problem{.heads = 1};
  const std::int64_t topk = 200;
  const auto lists = make_lists(
      problem,
      {.queries = 4, .keys = 10000, .topk = topk, .lists = ListKind::neighbours, .neighbour_share = 0.75}, 5);
  const auto first = rows_below(list_of(lists, 0, topk), topk, 10000);
  const auto second = rows_below(list_of(lists, 1, topk), topk, 10000);
  REQUIRE(first.size() == 200);
  REQUIRE(second.size() == 200);
  std::vector<std::int32_t> common;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(common));
  REQUIRE(common.size() == 150);
}

TEST_CASE("junk, holes, duplicates and dead rows occur in about the asked share") {
  const Problem problem{.heads = 1};
  const InputOptions clean{.queries = 40, .keys = 500, .topk = 100};
  const auto share = [&](const InputOptions& options, auto&& test) {
    const auto lists = make_lists(problem, options, 9);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < std::ssize(lists); ++i) count += test(lists, i);
    return static_cast<double>(count) / static_cast<double>(lists.size());
  };
  InputOptions options = clean;
  options.junk_share = 0.3;
  REQUIRE(share(options, [](auto& l, std::int64_t i) {
            return l[std::size_t(i)] < 0 || l[std::size_t(i)] >= 500;
          }) == Approx(0.3).margin(0.03));
  options = clean;
  options.hole_share = 0.2;
  REQUIRE(share(options, [](auto& l, std::int64_t i) { return l[std::size_t(i)] == -1; }) ==
          Approx(0.2).margin(0.03));
  options = clean;
  options.dead_share = 0.5;
  REQUIRE(share(options, [](auto& l, std::int64_t i) {
            return std::all_of(&l[std::size_t(i - i % 100)], &l[std::size_t(i - i % 100)] + 100,
                               [](std::int32_t row) { return row == -1; });
          }) == Approx(0.5).margin(0.25));
  options = clean;
  options.duplicate_share = 0.5;
  const auto lists = make_lists(problem, options, 9);
  REQUIRE(rows_below(lists.data(), 100, 500).size() < 85);
}

TEST_CASE("sorted lists hold the same entries as others, ascending") {
  const Problem problem{.heads = 2};
  InputOptions options = {.queries = 20, .keys = 50, .topk = 30, .junk_share = 0.2, .hole_share = 0.2};
  std::vector<std::int32_t> lists = make_lists(problem, options, 5);
  options.sorted_lists = true;
  const std::vector<std::int32_t> sorted = make_lists(problem, options, 5);
  REQUIRE(lists != sorted);
  for (auto list = lists.begin(); list != lists.end(); list += 30) std::sort(list, list + 30);
  REQUIRE(lists == sorted);
}

TEST_CASE("poison lies in rows that no entry names and in tokens whose lists are empty, and nowhere else") {
  const Problem problem{.heads = 4, .kv_groups = 2, .has_delta = true};
  const InputOptions options = {.queries = 8, .keys = 60, .topk = 5, .dead_share = 0.4};
  const HostTensors clean = make_inputs(problem, options, 3);
  HostTensors t = clean;
  poison_unused(problem, t);
  std::vector<bool> named(60 * 2);
  std::int64_t dead = 0;
  for (std::int64_t token = 0; token < 8; ++token) {
    for (std::int64_t g = 0; g < 2; ++g) {
      const auto rows = attended_rows(problem, t, 0, token, g);
      for (const std::int32_t row : rows) named[static_cast<std::size_t>(row * 2 + g)] = true;
      dead += rows.empty();
      for (std::int64_t head = token * 4 + g * 2; head < token * 4 + g * 2 + 2; ++head) {
        const auto at = static_cast<std::size_t>(head);
        REQUIRE(std::isnan(t.lse[at]) == rows.empty());
        REQUIRE(std::isnan(t.delta[at]) == rows.empty());
        REQUIRE(std::isnan(bf16_to_float(t.o[at * 512 + 511])) == rows.empty());
      }
    }
  }
  REQUIRE(dead > 0);
  REQUIRE(dead < 16);
  for (std::size_t row = 0; row < named.size(); ++row) {
    REQUIRE(std::isnan(bf16_to_float(t.kv[row * 576])) == !named[row]);
    REQUIRE(std::isnan(bf16_to_float(t.kv[row * 576 + 575])) == !named[row]);
  }
  const Gradients want = backward(problem, clean), got = backward(problem, t);
  REQUIRE(got.d_q == want.d_q);
  REQUIRE(got.d_kv == want.d_kv);
}

TEST_CASE("lists come from a file of the right size, and any other is refused by name") {
  const Problem problem{.heads = 1};
  const auto path = std::filesystem::temp_directory_path() / "smla_lists_test.bin";
  const std::vector<std::int32_t> lists = {0, 1, -1, 2, 2, 7};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(lists.data()), 24);
  InputOptions options{
      .queries = 2, .keys = 8, .topk = 3, .lists = ListKind::file, .list_file = path.string()};
  REQUIRE(make_lists(problem, options, 1) == lists);
  options.topk = 4;
  REQUIRE_THROWS_WITH(make_lists(problem, options, 1), smla_test::contains("24 bytes"));
  std::filesystem::remove(path);
  REQUIRE_THROWS_WITH(make_lists(problem, options, 1), smla_test::contains(path.string()));
}

TEST_CASE("options that cannot work are refused with their value") {
  const Problem problem{.heads = 1};
  REQUIRE_THROWS_WITH(make_lists(problem, {.queries = -3}, 1), smla_test::contains("queries = -3"));
  REQUIRE_THROWS_WITH(make_lists(problem, {.junk_share = 1.5}, 1), smla_test::contains("junk_share = 1.5"));
  REQUIRE_THROWS_WITH(parse_list_kind("sorted"), smla_test::contains("'sorted'"));
  REQUIRE(parse_list_kind("neighbours") == ListKind::neighbours);
}

TEST_CASE("lengths beyond 2^31 - 1 and a list file that is a directory are refused by value") {
  const Problem problem{.heads = 1};
  const auto refusal = [&](const InputOptions& options) -> std::string {
    try {
      make_inputs(problem, options, 1);
    } catch (const Error& error) {
      CHECK(error.status() == Status::invalid_argument);
      return error.what();
    }
    return "nothing was refused";
  };
  CHECK_THAT(refusal({.queries = std::numeric_limits<std::int64_t>::max(), .keys = 4, .topk = 4}),
             contains("must not exceed 2147483647") && contains("queries = 9223372036854775807"));
  CHECK_THAT(refusal({.queries = 1, .keys = 4, .topk = 4, .lists = ListKind::file, .list_file = "/"}),
             contains("cannot open the list file /: it is a directory"));
}
