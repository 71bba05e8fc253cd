#include "plan/launches.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "generator/generator.h"

namespace smla::core {
namespace {

constexpr std::int64_t kLargestGrid = std::numeric_limits<std::int32_t>::max();  // of gridDim.x
constexpr std::int64_t kZeroingCtas = 1024;  // some 8 an SM of the largest GPUs: enough to saturate memory
constexpr std::int64_t kPostprocessCtas =
    132 * 16;  // two waves of 8 CTAs of 256 threads on every SM of an H200; rows are strided over
constexpr std::int64_t kRowScalesCtas = 264;  // two an SM of an H200: each reads all bounds of its group
constexpr std::int64_t kRowsAWarp = 8;        // of row_scales, at least where there are so many

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

// One CTA a token; the same CTAs zero the sums, so a short call over many kv rows takes more of them.
std::int64_t preprocess_grid(const Lengths& n, const WorkspaceLayout& layout, int threads) {
  const std::int64_t zero_bytes = layout.d_kv_sum.bytes + layout.counters.bytes;
  const std::int64_t zeroing = std::min(kZeroingCtas, divide_up(zero_bytes / 16, threads));
  return std::clamp(n.batch * n.queries, std::max<std::int64_t>(zeroing, 1), kLargestGrid);
}

// A whole number of CTAs for each batch entry and group; one that has many lists is read by few CTAs.
std::int64_t row_scales_grid(const Problem& p, const Lengths& n, int threads) {
  const std::int64_t groups = n.batch * p.kv_groups;
  const std::int64_t warps = threads / 32;
  return groups * std::clamp<std::int64_t>(divide_up(n.keys, warps * kRowsAWarp), 1,
                                           std::max<std::int64_t>(kRowScalesCtas / groups, 1));
}

// A warp a row of d_kv, and a thread four elements of d_q of the blocks whose lists were split.
std::int64_t postprocess_grid(const Problem& p, const Lengths& n, const Split& split, int threads) {
  const std::int64_t rows = n.batch * p.kv_groups * n.keys;
  const std::int64_t quads = std::int64_t{split.blocks} * 64 * p.d_qk() / 4;
  return std::clamp<std::int64_t>(std::max(divide_up(rows, threads / 32), divide_up(quads, threads)), 1,
                                  kPostprocessCtas);
}

}  // namespace

const char* name_of(KernelRole role) {
  switch (role) {
    case KernelRole::preprocess:
      return "preprocess";
    case KernelRole::row_scales:
      return "row_scales";
    case KernelRole::group_scales:
      return "group_scales";
    case KernelRole::sort_lists:
      return "sort_lists";
    case KernelRole::backward:
      return "backward";
    case KernelRole::postprocess:
      return "postprocess";
  }
  return "unknown role";
}

Launches choose_launches(const Problem& problem, const Config& config,
                         const std::vector<KernelFacts>& kernels, const Lengths& lengths, const Order& order,
                         const WorkspaceLayout& layout, bool lists_are_ready) {
  Launches launches;
  if (lengths.batch == 0 && !problem.has_sink) return launches;
  const bool tokens = lengths.batch > 0 && lengths.queries > 0;

  for (const KernelFacts& facts : kernels) {
    Launch launch = {facts.role, 0, static_cast<std::uint32_t>(facts.threads),
                     static_cast<std::uint32_t>(facts.shared_bytes)};
    std::int64_t grid = 0;
    switch (facts.role) {
      case KernelRole::preprocess:
        grid = preprocess_grid(lengths, layout, facts.threads);
        break;
      case KernelRole::row_scales:
        if (!tokens || lengths.keys == 0) continue;
        grid = row_scales_grid(problem, lengths, facts.threads);
        break;
      case KernelRole::group_scales:
        if (!tokens) continue;
        grid = lengths.batch * problem.kv_groups * token_groups(problem, config, lengths);
        break;
      case KernelRole::sort_lists:
        if (!tokens || !order.sorted || lists_are_ready) continue;
        grid = blocks_of_tokens(lengths, config) * problem.kv_groups;
        launch.shared_bytes =
            order.concatenate ? 0 : static_cast<std::uint32_t>(sort_shared_bytes(lengths.keys, config));
        break;
      case KernelRole::backward:
        if (!tokens) continue;
        grid = backward_ctas(lengths, problem, config) +
               std::int64_t{order.split.blocks} * (order.split.shares - 1);
        break;
      case KernelRole::postprocess:
        grid = postprocess_grid(problem, lengths, order.split, facts.threads);
        break;
    }
    if (launches.count == launches.launch.size()) {
      fail(Status::internal_error, "a kernel source has more than {} kernels", launches.launch.size());
    }
    launch.grid = static_cast<std::uint32_t>(grid);
    launches.launch[launches.count++] = launch;
  }
  return launches;
}

}  // namespace smla::core
