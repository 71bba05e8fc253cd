#include "plan/lengths.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "generator/generator.h"

namespace smla::core {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();  // lengths and grids are 32-bit

// The schedules of wgmma keep the byte offset of a row inside its group's sums in 32 bits; offsets from
// 0xf0000000 on mean "no reduction" (templates' sentinel).
constexpr std::int64_t kRowOffsetLimit = 0xf0000000;

// Kernels round the list of a block up to whole steps of at most 64 entries, in 32 bits.
constexpr std::int64_t kLargestList = kLargest - 63;

constexpr std::int64_t kPartialKeys = 16384;

void check_length(std::string_view name, std::int64_t value) {
  if (value < 0) fail(Status::invalid_argument, "{} = {} is negative (lengths.{})", name, value, name);
  if (value > kLargest) {
    fail(Status::invalid_argument, "{} = {} is above {} (lengths.{})", name, value, kLargest, name);
  }
}

}  // namespace

std::int64_t group_tokens(const Problem& problem, const Config& config, const Lengths& lengths) {
  // Causal lists hit some rows with every token, and lists of a block that name most of the rows hit those.
  const std::int64_t named = lengths.topk * block_tokens(config);
  const std::int64_t additions = problem.causal || 2 * lengths.keys < 3 * named ? 64 : 128;
  return std::max<std::int64_t>(additions / head_blocks(problem, config), 1) * block_tokens(config);
}

std::int64_t token_groups(const Problem& problem, const Config& config, const Lengths& lengths) {
  const std::int64_t tokens = group_tokens(problem, config, lengths);
  return (lengths.queries + tokens - 1) / tokens;
}

std::int64_t blocks_of_tokens(const Lengths& lengths, const Config& config) {
  const std::int64_t tokens = block_tokens(config);
  return lengths.batch * ((lengths.queries + tokens - 1) / tokens);
}

std::int64_t backward_ctas(const Lengths& lengths, const Problem& problem, const Config& config) {
  return blocks_of_tokens(lengths, config) * problem.kv_groups * head_blocks(problem, config);
}

void validate(const Lengths& lengths, const Problem& problem, const Config& config) {
  check_length("batch", lengths.batch);
  check_length("queries", lengths.queries);
  check_length("keys", lengths.keys);
  check_length("topk", lengths.topk);
  if (lengths.topk > kLargestList / block_tokens(config)) {
    fail(Status::not_supported, "topk = {} (lengths.topk): the most entries of a list that work are {}",
         lengths.topk, kLargestList / block_tokens(config));
  }

  const std::int64_t a_token = std::int64_t{problem.kv_groups} * head_blocks(problem, config);
  const std::int64_t tokens = lengths.batch * lengths.queries;  // below 2^62
  if (tokens > kLargest / a_token) {
    fail(
        Status::not_supported,
        "batch * queries = {} * {} tokens need {} CTAs each, more than {} in all (lengths.queries); the most "
        "tokens that work are {}",
        lengths.batch, lengths.queries, a_token, kLargest, kLargest / a_token);
  }
  const std::int64_t row_bytes = sum_row_bytes(problem);
  if (uses_wgmma(config.schedule) && lengths.keys * row_bytes >= kRowOffsetLimit) {
    fail(Status::not_supported,
         "keys = {} (lengths.keys): the schedule {} reaches {} kv rows of {} columns at most; the schedule "
         "cp_async takes more",
         lengths.keys, name(config.schedule), (kRowOffsetLimit - 1) / row_bytes, problem.d_qk());
  }
  if (problem.accumulate == Accumulate::partial && lengths.keys > kPartialKeys) {
    fail(Status::not_supported,
         "keys = {} (lengths.keys): accumulate = partial is for up to {} kv rows, beyond which rows that "
         "many tokens name "
         "would take too many additions; the nearest that works is accumulate = fp32",
         lengths.keys, kPartialKeys);
  }
  // What remains could still overflow sizes of the workspace: kv rows of all groups and batch entries.
  if (lengths.batch > 0 && lengths.keys > 0) {
    const std::int64_t rows = std::numeric_limits<std::int64_t>::max() / 2 / row_bytes / problem.kv_groups;
    if (lengths.keys > rows / lengths.batch) {
      fail(Status::not_supported, "batch * keys = {} * {} kv rows overflow 64-bit sizes (lengths.keys)",
           lengths.batch, lengths.keys);
    }
  }
}

}  // namespace smla::core
