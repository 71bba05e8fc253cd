#include "reference/host_tensors.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace smla::core {
namespace {

template <class T>
void expect_size(std::string_view tensor, const std::vector<T>& values, std::int64_t wanted) {
  if (static_cast<std::int64_t>(values.size()) != wanted) {
    fail(Status::invalid_argument, "{} holds {} elements where its shape has {}", tensor, values.size(),
         wanted);
  }
}

}  // namespace

void validate(const Problem& p, const HostTensors& t, bool with_forward) {
  if (t.batch < 0 || t.queries < 0 || t.keys < 0 || t.topk < 0) {
    fail(Status::invalid_argument,
         "lengths must not be negative: batch = {}, queries = {}, keys = {}, topk = {}", t.batch, t.queries,
         t.keys, t.topk);
  }
  const std::int64_t tokens = t.batch * t.queries;
  const std::int64_t head_rows = tokens * p.heads;
  expect_size("q", t.q, head_rows * p.d_qk());
  expect_size("kv", t.kv, t.batch * t.keys * p.kv_groups * p.d_qk());
  expect_size("d_o", t.d_o, head_rows * p.d_v);
  expect_size("indices", t.indices, tokens * p.kv_groups * t.topk);
  expect_size("topk_length", t.topk_length,
              p.has_topk_length ? tokens * (t.length_per_group ? p.kv_groups : 1) : 0);
  expect_size("attn_sink", t.attn_sink, p.has_sink ? p.heads : 0);
  if (!with_forward) return;
  expect_size("o", t.o, head_rows * p.d_v);
  expect_size("lse", t.lse, head_rows);
  expect_size("delta", t.delta, p.has_delta ? head_rows : 0);
}

std::vector<std::int32_t> attended_rows(const Problem& p, const HostTensors& t, std::int64_t b,
                                        std::int64_t s, std::int64_t g) {
  const std::int64_t token = b * t.queries + s;
  std::int64_t length = t.topk;
  if (p.has_topk_length) {
    const std::int64_t at = t.length_per_group ? token * p.kv_groups + g : token;
    length = std::clamp<std::int64_t>(t.topk_length[static_cast<std::size_t>(at)], 0, t.topk);
  }
  const std::int64_t end = p.causal ? std::min(t.keys, s + t.query_offset + 1) : t.keys;
  const std::int32_t* list = t.indices.data() + (token * p.kv_groups + g) * t.topk;
  std::vector<std::int32_t> rows;
  rows.reserve(static_cast<std::size_t>(length));
  std::copy_if(list, list + length, std::back_inserter(rows),
               [end](std::int32_t row) { return row >= 0 && row < end; });
  return rows;
}

}  // namespace smla::core
