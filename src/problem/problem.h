// What is computed: everything that specialises the generated text. Lengths, strides, the scale and pointers are
// arguments of a call and never part of a Problem.
#pragma once

#include <string>
#include <string_view>

namespace smla::core {

enum class DType { bf16, fp16 };
enum class LseBase { two, e };               // TileLang saves log2 of the denominator, FlashMLA the natural log
enum class DkvType { operand, fp32 };        // type of the d_kv that the caller gets
enum class Accumulate { fp32, partial };     // how d_kv is summed over tokens

struct Problem {
  int heads = 0;            // H: query heads, 1 .. 128 and multiples of 64 above
  int kv_groups = 1;        // G: kv heads; head h belongs to group h / (H / G)
  int d_v = 512;            // columns of V, the first of a kv row
  int d_tail = 64;          // columns after them (rope); 0 where rope lies inside the 512
  DType dtype = DType::bf16;
  bool causal = false;      // an entry counts only when index <= s + query_offset
  bool has_sink = false;    // attn_sink [H]: one more logit a head; adds d_sink
  bool has_topk_length = false;
  bool has_delta = false;   // the caller brings delta = sum over d_v of o * d_o
  LseBase lse_base = LseBase::two;
  bool lse_includes_sink = false;
  DkvType d_kv_type = DkvType::operand;
  Accumulate accumulate = Accumulate::fp32;
  bool deterministic = false;

  int d_qk() const { return d_v + d_tail; }
  int heads_per_group() const { return heads / kv_groups; }
  bool operator==(const Problem&) const = default;
};

// Refuses what no schedule of this version computes. Error::status() is invalid_argument or not_supported; the
// sentence holds the field, its value and the nearest that works.
void validate(const Problem& problem);

// Spells every field that differs from its default, in a fixed order: "h64-d512t64-bf16-causal".
std::string canonical_name(const Problem& problem);

// The same with accumulate = fp32: what a call with partial sums falls back on.
Problem with_fp32_sums(Problem problem);

std::string_view name(DType dtype);
std::string_view name(LseBase base);
std::string_view name(DkvType type);
std::string_view name(Accumulate accumulate);

}  // namespace smla::core
