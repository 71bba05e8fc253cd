#include "plan/split.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "generator/generator.h"

namespace smla::core {
namespace {

constexpr std::int64_t kRowsATile = 64;
constexpr std::int64_t kTilesOfOverhead = 2;  // what splitting costs, in tiles
constexpr std::int64_t kLargestGrid = std::numeric_limits<std::int32_t>::max();

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

}  // namespace

Split choose_split(const Problem& problem, const Config& config, const Lengths& lengths,
                   const DeviceFacts& device, bool sweep) {
  const std::int64_t cluster = cluster_ctas(config);  // which no wave may cut: a MIG slice can have odd SMs
  const std::int64_t in_flight = device.ctas_in_flight / cluster * cluster;
  if (!uses_wgmma(config.schedule) || problem.deterministic || sweep || in_flight <= 0) return {};
  const std::int64_t blocks = backward_ctas(lengths, problem, config), rest = blocks % in_flight;
  if (rest == 0) return {};
  // Of a full list. One that several tokens share names a row once, however many of them do.
  const std::int64_t entries = std::min(lengths.topk * block_tokens(config), lengths.keys);
  const std::int64_t tiles = divide_up(entries, kRowsATile);
  const std::int64_t most = std::min(in_flight / rest, tiles);
  if (most < 2) return {};
  const std::int64_t tiles_a_share = divide_up(tiles, most);
  const std::int64_t shares = divide_up(tiles, tiles_a_share);  // no more than have tiles
  if (tiles - tiles_a_share <= kTilesOfOverhead || blocks > kLargestGrid - in_flight) return {};
  return {.blocks = static_cast<int>(rest), .shares = static_cast<int>(shares)};
}

}  // namespace smla::core
