// Whether a call is wanted. A call with partial sums is followed by the same call with fp32 sums, which is wanted only
// when the partial sums did not do (partial_sums.cuh): its kernels ask here first. All other calls are.
#pragma once

// Words of the counters of a call with partial sums.
enum PartialReport {
  kRoundingFloor = 4,   // fp32: squares of what rounding to multiples of 2^-24 may cost, over all elements of d_kv
  kSquares = 5,         // fp32: squares of d_kv
  kNotFinite = 6,       // not 0: an element of d_kv is not finite
  kInputNotFinite = 7,  // not 0: an input was not, and NaN is the right answer
};

PTX_FN bool is_wanted(const Arguments& args) {
  if (Spec::deterministic || args.partial_report == 0) return true;  // no fallback is deterministic
  const float floor = __uint_as_float(ld_global_nc_u32(args.partial_report + kRoundingFloor));
  const float squares = __uint_as_float(ld_global_nc_u32(args.partial_report + kSquares));
  if (floor > 1.5e-3f * 1.5e-3f * squares) return true;
  // A sum of squares that overflows tells nothing either.
  const bool known = ld_global_nc_u32(args.partial_report + kNotFinite) == 0 && __float_as_uint(squares) < 0x7f800000u;
  return !known && ld_global_nc_u32(args.partial_report + kInputNotFinite) == 0;
}
