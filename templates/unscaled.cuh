// One buffer of d_kv_sum for all tokens, and P as it is: what fp32 (columns.cuh) and integer sums (fixed_point.cuh)
// have in common and partial sums do otherwise.
#pragma once

// The sums that a block of tokens adds to.
PTX_FN const char* sums_of(const Arguments& args, const Place& place) { return sums_of(args, place.b, place.group); }

// Nothing scales P, and postprocess has nothing to notice.
PTX_FN float log2_scale(const Arguments&, const Place&) { return 0.0f; }
PTX_FN float inverse_scale(const Arguments&, const Place&) { return 1.0f; }
struct FoldReport {};
PTX_FN void note(FoldReport&, const float (&)[4]) {}
PTX_FN void store_report(const FoldReport&, const Arguments&) {}
PTX_FN void store_row_norms(const Arguments&, int, int) {}
