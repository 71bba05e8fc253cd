#include "problem/problem.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace smla::core {
namespace {

constexpr int kMostHeads = 65536;

int nearest_divisor(int value, int wanted) {
  int best = 1;
  for (int d = 1; d <= value && best < wanted;
       ++d) {  // ascending: what is past `wanted` only gets further away
    if (value % d == 0 && std::abs(d - wanted) < std::abs(best - wanted)) best = d;
  }
  return best;
}

}  // namespace

void validate(const Problem& p) {
  if (p.heads < 1) {
    fail(Status::invalid_argument, "heads = {} must be at least 1 (problem.heads)", p.heads);
  }
  if (p.heads > 128 && p.heads % 64 != 0) {
    fail(Status::not_supported,
         "heads = {} is above 128 and not a multiple of 64 (problem.heads); the nearest that works is {}",
         p.heads, std::min(p.heads - p.heads % 64, kMostHeads));
  }
  if (p.heads > kMostHeads) {
    fail(Status::not_supported, "heads = {} is more than {} (problem.heads); the nearest that works is {}",
         p.heads, kMostHeads, kMostHeads);
  }
  if (p.kv_groups < 1 || p.heads % p.kv_groups != 0) {
    fail(Status::invalid_argument,
         "heads = {} is not divisible by kv_groups = {} (problem.kv_groups); the nearest that works is {}",
         p.heads, p.kv_groups, nearest_divisor(p.heads, p.kv_groups));
  }
  if (p.d_v != 512) {
    fail(Status::not_supported, "d_v = {} (problem.d_v): only 512 is supported", p.d_v);
  }
  if (p.d_tail != 0 && p.d_tail != 64) {
    fail(Status::not_supported, "d_tail = {} (problem.d_tail): only 64 and 0 are supported", p.d_tail);
  }
  if (p.lse_includes_sink && !p.has_sink) {
    fail(Status::invalid_argument,
         "lse_includes_sink = true needs has_sink = true (problem.lse_includes_sink): there is no sink to "
         "include");
  }
  if (p.deterministic && p.accumulate == Accumulate::partial) {
    fail(Status::invalid_argument,
         "deterministic = true cannot be had with accumulate = partial (problem.accumulate): the order of "
         "rounding "
         "differs between runs; the nearest that works is accumulate = fp32");
  }
  if (p.accumulate == Accumulate::partial && p.dtype != DType::bf16) {
    fail(Status::not_supported,
         "accumulate = partial needs dtype = bf16 and it is {} (problem.accumulate): fp16 sums alone miss "
         "its accuracy "
         "of 5e-4; the nearest that works is accumulate = fp32",
         name(p.dtype));
  }
}

Problem with_fp32_sums(Problem problem) {
  problem.accumulate = Accumulate::fp32;
  return problem;
}

std::string canonical_name(const Problem& p) {
  std::string text = fmt::format("h{}", p.heads);
  if (p.kv_groups != 1) text += fmt::format("-g{}", p.kv_groups);
  text += fmt::format("-d{}t{}-{}", p.d_v, p.d_tail, name(p.dtype));
  if (p.causal) text += "-causal";
  if (p.has_sink) text += p.lse_includes_sink ? "-sink_in_lse" : "-sink";
  if (p.has_topk_length) text += "-length";
  if (p.has_delta) text += "-delta";
  if (p.lse_base == LseBase::e) text += "-lse_e";
  if (p.d_kv_type == DkvType::fp32) text += "-dkv_fp32";
  if (p.accumulate == Accumulate::partial) text += "-partial";
  if (p.deterministic) text += "-deterministic";
  return text;
}

std::string_view name(DType dtype) {
  return dtype == DType::bf16 ? "bf16" : "fp16";
}
std::string_view name(LseBase base) {
  return base == LseBase::two ? "2" : "e";
}
std::string_view name(DkvType type) {
  return type == DkvType::operand ? "operand" : "fp32";
}
std::string_view name(Accumulate accumulate) {
  return accumulate == Accumulate::fp32 ? "fp32" : "partial";
}

}  // namespace smla::core
