#include "reference/layout.h"

#include <algorithm>

#include "reference/random.h"

namespace smla::core {
namespace {

constexpr std::int64_t kVector = 8;  // 16-bit elements of the 16 bytes that rows of operands are multiples of

// From the innermost of a drawn order of dimensions up, each stride steps over what lies below it and a gap.
Placement drawn_placement(const Box& box, std::int64_t unit, std::uint64_t key) {
  std::array<std::int64_t, 3> strides = {};
  std::int64_t span = box.columns;
  const auto gap = [&](std::uint64_t index) { return unit * random_below(key, index, 4); };
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto d = static_cast<std::size_t>(permuted(key, i, 3));
    strides[d] = span + gap(d);
    span = strides[d] * std::max<std::int64_t>(1, box.lengths[d]);
  }
  return {.strides = strides, .before = gap(3), .behind = gap(4)};
}

}  // namespace

std::array<std::int64_t, 3> Box::strides() const {
  if (placement.strides) return *placement.strides;
  return {lengths[1] * lengths[2] * columns, lengths[2] * columns, columns};
}

std::int64_t Box::offset(std::int64_t row) const {
  const auto s = strides();
  const std::int64_t head = row % lengths[2];
  const std::int64_t token = row / lengths[2] % lengths[1];
  const std::int64_t batch = row / lengths[2] / lengths[1];
  return (placement.before + batch * s[0] + token * s[1] + head * s[2]) * element_bytes;
}

std::int64_t Box::bytes() const {
  if (rows() == 0) return 0;
  return offset(rows() - 1) + row_bytes() + placement.behind * element_bytes;
}

bool Box::fills_buffer() const {
  return !placement.strides && placement.before == 0 && placement.behind == 0;
}

Boxes boxes_of(const Problem& p, const HostTensors& t, const Layout& layout) {
  const std::array<std::int64_t, 3> heads = {t.batch, t.queries, p.heads};
  const std::array<std::int64_t, 3> groups = {t.batch, t.queries, p.kv_groups};
  const std::array<std::int64_t, 3> rows = {t.batch, t.keys, p.kv_groups};
  const std::array<std::int64_t, 3> lengths = {t.batch, p.has_topk_length ? t.queries : 0,
                                               t.length_per_group ? p.kv_groups : 1};
  const std::array<std::int64_t, 3> deltas = {t.batch, p.has_delta ? t.queries : 0, p.heads};
  const Box per_head = {{1, 1, p.has_sink ? p.heads : 0}, 1, 4, {}};
  return {.q = {heads, p.d_qk(), 2, layout.q},
          .kv = {rows, p.d_qk(), 2, layout.kv},
          .o = {heads, p.d_v, 2, layout.o},
          .d_o = {heads, p.d_v, 2, layout.d_o},
          .indices = {groups, t.topk, 4, layout.indices},
          .topk_length = {lengths, 1, 4, layout.topk_length},
          .lse = {heads, 1, 4, layout.lse},
          .attn_sink = per_head,
          .delta = {deltas, 1, 4, layout.delta},
          .d_q = {heads, p.d_qk(), 2, layout.d_q},
          .d_kv = {rows, p.d_qk(), p.d_kv_type == DkvType::fp32 ? 4 : 2, layout.d_kv},
          .d_sink = per_head};
}

Layout drawn_layout(const Problem& p, const HostTensors& t, std::uint64_t seed) {
  if (seed == 0) return {};
  const Boxes boxes = boxes_of(p, t);
  std::uint64_t tensor = 0;
  const auto draw = [&](const Box& box, std::int64_t unit) {
    return drawn_placement(box, unit, random_bits(seed, tensor++));
  };
  Layout layout;
  layout.q = draw(boxes.q, kVector);
  layout.kv = draw(boxes.kv, kVector);
  layout.o = draw(boxes.o, kVector);
  layout.d_o = draw(boxes.d_o, kVector);
  layout.d_q = draw(boxes.d_q, kVector);
  layout.d_kv = draw(boxes.d_kv, kVector);
  layout.indices = draw(boxes.indices, 1);
  layout.topk_length = draw(boxes.topk_length, 1);
  layout.lse = draw(boxes.lse, 1);
  layout.delta = draw(boxes.delta, 1);
  return layout;
}

}  // namespace smla::core
