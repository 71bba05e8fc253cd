#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "reference/random.h"

namespace smla_test {

// Rows of one level a parameter (0 .. levels[p] - 1) in which every two levels of different parameters meet
// at least once: greedily, each row the best of 32 drawn ones. The same levels give the same rows.
inline std::vector<std::vector<int>> covering_rows(const std::vector<int>& levels) {
  using Pair = std::vector<int>;  // parameter, level, later parameter, its level
  std::set<Pair> missing;
  const auto count = static_cast<int>(levels.size());
  for (int p = 0; p < count; ++p) {
    for (int r = p + 1; r < count; ++r) {
      for (int a = 0; a < levels[static_cast<std::size_t>(p)]; ++a) {
        for (int b = 0; b < levels[static_cast<std::size_t>(r)]; ++b) missing.insert({p, a, r, b});
      }
    }
  }
  const auto gain = [&](const std::vector<int>& row,
                        int p) {  // missing pairs of p with what the row has already
    int pairs = 0;
    for (int r = 0; r < count; ++r) {
      const int level = row[static_cast<std::size_t>(r)];
      if (r == p || level < 0) continue;
      const int own = row[static_cast<std::size_t>(p)];
      pairs += missing.count(p < r ? Pair{p, own, r, level} : Pair{r, level, p, own}) != 0;
    }
    return pairs;
  };

  std::vector<std::vector<int>> rows;
  std::uint64_t draw = 0;
  while (!missing.empty()) {
    std::vector<int> best;
    int best_gain = -1;
    for (int candidate = 0; candidate < 32; ++candidate) {
      std::vector<int> row(levels.size(), -1);
      const Pair& first = *missing.begin();
      row[static_cast<std::size_t>(first[0])] = first[1];
      row[static_cast<std::size_t>(first[2])] = first[3];
      int total = 1;
      for (int i = 0; i < count; ++i) {
        const auto p = static_cast<std::size_t>(smla::core::permuted(draw, i, count));
        if (row[p] >= 0) continue;
        const auto start = static_cast<int>(smla::core::random_below(1, draw * 64 + p, levels[p]));
        int best_level = start;
        int level_gain = -1;
        for (int l = 0; l < levels[p]; ++l) {
          row[p] = (start + l) % levels[p];
          const int pairs = gain(row, static_cast<int>(p));
          if (pairs > level_gain) {
            level_gain = pairs;
            best_level = row[p];
          }
        }
        row[p] = best_level;
        total += level_gain;
      }
      ++draw;
      if (total > best_gain) {
        best_gain = total;
        best = row;
      }
    }
    for (int p = 0; p < count; ++p) {
      for (int r = p + 1; r < count; ++r) {
        missing.erase({p, best[static_cast<std::size_t>(p)], r, best[static_cast<std::size_t>(r)]});
      }
    }
    rows.push_back(best);
  }
  return rows;
}

}  // namespace smla_test
