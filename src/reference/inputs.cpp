#include "reference/inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "reference/half.h"
#include "reference/parallel.h"
#include "reference/random.h"
#include "reference/reference.h"

namespace smla::core {
namespace {

// Every tensor draws from a sequence of its own.
enum class Stream : std::uint64_t { q = 1, kv, d_o, sink, length, rows, junk, holes, duplicates, dead };

std::uint64_t stream_key(std::uint64_t seed, Stream stream) {
  return random_bits(seed, static_cast<std::uint64_t>(stream));
}

std::vector<std::uint16_t> normal_operand(DType dtype, std::int64_t rows, std::int64_t columns, double rms,
                                          std::uint64_t key) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(rows * columns));
  parallel_for(rows, [&](std::int64_t row) {
    for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      values[static_cast<std::size_t>(i)] =
          to_operand(dtype, rms * random_normal(key, static_cast<std::uint64_t>(i)));
    }
  });
  return values;
}

void expect_share(std::string_view option, double share) {
  if (!(share >= 0 && share <= 1)) fail(Status::invalid_argument, "{} = {} is not in [0, 1]", option, share);
}

void validate(const InputOptions& o) {
  if (o.batch < 0 || o.queries < 0 || o.keys < 0 || o.topk < 0) {
    fail(Status::invalid_argument,
         "lengths must not be negative: batch = {}, queries = {}, keys = {}, topk = {}", o.batch, o.queries,
         o.keys, o.topk);
  }
  if (o.keys > std::numeric_limits<std::int32_t>::max() - 1) {
    fail(Status::invalid_argument, "keys = {} does not fit an int32 index", o.keys);
  }
  constexpr std::int64_t kLongest = std::numeric_limits<std::int32_t>::max();
  if (o.batch > kLongest || o.queries > kLongest || o.topk > kLongest) {
    fail(Status::invalid_argument, "lengths must not exceed {}: batch = {}, queries = {}, topk = {}",
         kLongest, o.batch, o.queries, o.topk);
  }
  expect_share("neighbour_share", o.neighbour_share);
  expect_share("junk_share", o.junk_share);
  expect_share("hole_share", o.hole_share);
  expect_share("duplicate_share", o.duplicate_share);
  expect_share("dead_share", o.dead_share);
}

std::vector<std::int32_t> lists_from_file(const std::string& path, std::int64_t count) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error)) {
    fail(Status::invalid_argument, "cannot open the list file {}{}", path, file ? ": it is a directory" : "");
  }
  const std::int64_t bytes = static_cast<std::int64_t>(file.tellg());
  if (bytes != 4 * count) {
    fail(Status::invalid_argument, "the list file {} holds {} bytes; B * S * G * topk int32 are {}", path,
         bytes, 4 * count);
  }
  std::vector<std::int32_t> lists(static_cast<std::size_t>(count));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(lists.data()), bytes);
  if (!file) fail(Status::invalid_argument, "cannot read the list file {}", path);
  return lists;
}

// Draws one list of a token; positions without a row hold S_kv, as in TileLang's test.
void draw_list(const InputOptions& o, std::int64_t s, std::int64_t list, std::uint64_t key,
               std::int32_t* out) {
  std::fill(out, out + o.topk, static_cast<std::int32_t>(o.keys));
  std::int64_t rows = o.keys;
  if (o.lists == ListKind::causal) rows = std::min(rows, std::max<std::int64_t>(1, s + o.query_offset));
  const std::int64_t count = std::min(o.topk, rows);
  if (o.lists != ListKind::neighbours) {
    const std::uint64_t list_key = random_bits(key, static_cast<std::uint64_t>(list));
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::int32_t>(permuted(list_key, i, rows));
    return;
  }
  // One permutation for 64 tokens: its head is theirs in common, and each takes another stretch of what
  // follows.
  constexpr std::int64_t kNeighbours = 64;
  const std::uint64_t shared_key = random_bits(key, static_cast<std::uint64_t>(list / o.queries * o.queries) +
                                                        static_cast<std::uint64_t>(s / kNeighbours));
  const auto common = static_cast<std::int64_t>(std::lround(o.neighbour_share * static_cast<double>(count)));
  const std::int64_t own = count - common;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = i;
    if (i >= common) at = common + ((s % kNeighbours) * own + i - common) % (rows - common);
    out[i] = static_cast<std::int32_t>(permuted(shared_key, at, rows));
  }
}

void spoil_list(const InputOptions& o, std::int64_t list, std::uint64_t seed, std::int32_t* out) {
  const auto keys = static_cast<std::int32_t>(o.keys);
  const std::array<std::int32_t, 6> junk = {-1,         keys,       keys + 1,
                                            2147480000, 2143289344, std::numeric_limits<std::int32_t>::min()};
  const std::vector<std::int32_t> drawn(out, out + o.topk);
  const std::uint64_t duplicate_key = stream_key(seed, Stream::duplicates);
  const std::uint64_t junk_key = stream_key(seed, Stream::junk);
  for (std::int64_t i = 0; i < o.topk; ++i) {
    const auto at = static_cast<std::uint64_t>(list * o.topk + i);
    if (random_uniform(duplicate_key, 2 * at) < o.duplicate_share) {
      out[i] = drawn[static_cast<std::size_t>(random_below(duplicate_key, 2 * at + 1, o.topk))];
    }
    if (random_uniform(stream_key(seed, Stream::holes), at) < o.hole_share) out[i] = -1;
    if (random_uniform(junk_key, 2 * at) < o.junk_share) {
      out[i] = junk[static_cast<std::size_t>(random_below(junk_key, 2 * at + 1, std::ssize(junk)))];
    }
  }
  if (random_uniform(stream_key(seed, Stream::dead), static_cast<std::uint64_t>(list)) < o.dead_share) {
    std::fill(out, out + o.topk, -1);
  }
}

}  // namespace

std::vector<std::int32_t> make_lists(const Problem& p, const InputOptions& o, std::uint64_t seed) {
  validate(o);
  const std::int64_t lists = o.batch * o.queries * p.kv_groups;
  if (o.lists == ListKind::file) return lists_from_file(o.list_file, lists * o.topk);
  std::vector<std::int32_t> indices(static_cast<std::size_t>(lists * o.topk));
  const std::uint64_t key = stream_key(seed, Stream::rows);
  parallel_for(o.batch * o.queries, [&](std::int64_t token) {
    for (std::int64_t g = 0; g < p.kv_groups; ++g) {
      std::int32_t* out = indices.data() + (token * p.kv_groups + g) * o.topk;
      const std::int64_t list = (g * o.batch + token / o.queries) * o.queries + token % o.queries;
      draw_list(o, token % o.queries, list, key, out);
      spoil_list(o, list, seed, out);
      if (o.sorted_lists) std::sort(out, out + o.topk);
    }
  });
  return indices;
}

HostTensors make_inputs(const Problem& p, const InputOptions& o, std::uint64_t seed) {
  validate(o);
  HostTensors t;
  t.batch = o.batch;
  t.queries = o.queries;
  t.keys = o.keys;
  t.topk = o.topk;
  t.scale = o.scale != 0 ? o.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(p.d_qk())));
  t.query_offset = o.query_offset;
  const std::int64_t tokens = o.batch * o.queries;
  t.q = normal_operand(p.dtype, tokens * p.heads, p.d_qk(), o.q_rms, stream_key(seed, Stream::q));
  t.kv = normal_operand(p.dtype, o.batch * o.keys * p.kv_groups, p.d_qk(), o.kv_rms,
                        stream_key(seed, Stream::kv));
  t.d_o = normal_operand(p.dtype, tokens * p.heads, p.d_v, o.d_o_rms, stream_key(seed, Stream::d_o));
  t.indices = make_lists(p, o, seed);
  if (p.has_topk_length) {
    t.length_per_group = o.length_per_group;
    const std::int64_t count = tokens * (o.length_per_group ? p.kv_groups : 1);
    const std::uint64_t key = stream_key(seed, Stream::length);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t margin = o.topk / 4;
      t.topk_length.push_back(static_cast<std::int32_t>(
          random_below(key, static_cast<std::uint64_t>(i), o.topk + 2 * margin + 1) - margin));
    }
  }
  if (p.has_sink) {
    for (int h = 0; h < p.heads; ++h) {
      t.attn_sink.push_back(static_cast<float>(
          o.sink_mean + random_normal(stream_key(seed, Stream::sink), static_cast<std::uint64_t>(h))));
    }
  }
  if (o.with_forward) add_forward(p, t);
  return t;
}

void poison_unused(const Problem& p, HostTensors& t) {
  const std::uint16_t nan = to_operand(p.dtype, std::numeric_limits<double>::quiet_NaN());
  std::vector<bool> named(static_cast<std::size_t>(t.batch * t.keys * p.kv_groups), false);
  for (std::int64_t row = 0; row < t.batch * t.queries * p.kv_groups; ++row) {
    const std::int64_t g = row % p.kv_groups, token = row / p.kv_groups, b = token / t.queries;
    const std::vector<std::int32_t> list = attended_rows(p, t, b, token % t.queries, g);
    for (const std::int32_t key : list) {
      named[static_cast<std::size_t>((b * t.keys + key) * p.kv_groups + g)] = true;
    }
    if (!list.empty()) continue;
    const std::int64_t first = token * p.heads + g * p.heads_per_group();
    for (std::int64_t head = first; head < first + p.heads_per_group(); ++head) {
      const auto at = static_cast<std::size_t>(head);
      t.lse[at] = std::numeric_limits<float>::quiet_NaN();
      if (p.has_delta) t.delta[at] = std::numeric_limits<float>::quiet_NaN();
      std::fill_n(t.o.begin() + head * p.d_v, p.d_v, nan);
    }
  }
  for (std::size_t row = 0; row < named.size(); ++row) {
    if (!named[row]) std::fill_n(t.kv.begin() + static_cast<std::ptrdiff_t>(row) * p.d_qk(), p.d_qk(), nan);
  }
}

void add_forward(const Problem& p, HostTensors& t) {
  Forward saved = forward(p, t);
  t.o = std::move(saved.o);
  t.lse = std::move(saved.lse);
  t.delta.clear();
  if (p.has_delta) t.delta = make_delta(p, t);
}

std::string_view name(ListKind kind) {
  switch (kind) {
    case ListKind::random:
      return "random";
    case ListKind::causal:
      return "causal";
    case ListKind::neighbours:
      return "neighbours";
    case ListKind::file:
      return "file";
  }
  return "?";
}

ListKind parse_list_kind(std::string_view text) {
  for (const ListKind kind : {ListKind::random, ListKind::causal, ListKind::neighbours, ListKind::file}) {
    if (text == name(kind)) return kind;
  }
  fail(Status::invalid_argument, "list kind '{}' is none of random, causal, neighbours, file", text);
}

}  // namespace smla::core
