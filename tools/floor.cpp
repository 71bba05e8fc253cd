#include "floor.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace smla::core {
namespace {

// Measured on an H200 by a kernel that does nothing but gather and reduce:
// a tile of 64 heads and 64 rows of 576 columns gathers 73,728 bytes and reduces 147,456 bytes of fp32 with
// 128-byte reductions in 5.455 us of one SM. The sums lie in L2 (up to 8k rows); fewer heads reduce as many
// bytes.
constexpr double kTileMicroseconds = 5.455;
// Half as many bytes, in fp16 or of half the columns (a CTA of a pair): 2.64 us of reductions and 0.3 of the
// gather, by the spike.
constexpr double kHalfTileMicroseconds = 2.94;
constexpr double kTileRows = 64, kTileColumns = 576;

}  // namespace

double call_flops(const Problem& p, const Lengths& n) {
  return 2.0 * static_cast<double>(n.batch) * static_cast<double>(n.queries) * p.heads *
         static_cast<double>(n.topk) * (3.0 * p.d_qk() + 2.0 * p.d_v);
}

double reduced_tiles(const Problem& p, const Config& config, const HostTensors& t) {
  const std::int64_t tokens = block_tokens(config);
  std::vector<std::int64_t> last_block(static_cast<std::size_t>(t.keys), -1);  // that has named the row
  std::int64_t block = 0, rows = 0;
  for (std::int64_t b = 0; b < t.batch; ++b) {
    for (std::int64_t s = 0; s < t.queries; s += tokens) {
      for (int group = 0; group < p.kv_groups; ++group, ++block) {
        for (std::int64_t i = s; i < std::min(s + tokens, t.queries); ++i) {
          const std::int32_t* list = t.indices.data() + ((b * t.queries + i) * p.kv_groups + group) * t.topk;
          for (std::int64_t entry = 0; entry < t.topk; ++entry) {
            if (list[entry] < 0 || list[entry] >= t.keys) continue;
            std::int64_t& last = last_block[static_cast<std::size_t>(list[entry])];
            rows += last != block;
            last = block;
          }
        }
      }
    }
  }
  return static_cast<double>(rows) / kTileRows * head_blocks(p, config);
}

std::optional<double> floor_milliseconds(const Problem& p, const Config& config, double tiles,
                                         const DeviceProperties& device) {
  if (device.name.find("H200") == std::string::npos || device.multiprocessors == 0) return std::nullopt;
  if (p.deterministic) return std::nullopt;  // integers take other reductions
  const bool half = p.accumulate == Accumulate::partial || cluster_ctas(config) == 2;
  const double tile = half ? kHalfTileMicroseconds : kTileMicroseconds;
  return tiles / device.multiprocessors * tile * 1e-3 * p.d_qk() / kTileColumns;
}

}  // namespace smla::core
