// How far a computed tensor is from the reference.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace smla::core {

struct Difference {
  std::int64_t first_non_finite = -1;  // position of the first NaN or inf in what was computed; -1: none
  std::int64_t worst = -1;             // position of max_abs; -1 when the two are equal
  double relative_l2 = 0;              // |got - want| / |want|; 0 when both are zero, inf when only want is
  double max_abs = 0;

  bool finite() const { return first_non_finite < 0; }
};

// Finiteness comes first: with a NaN or inf in `got`, relative_l2 and max_abs are inf and say nothing else.
// Positions where `want` itself is not finite count as right when `got` is the same. Error invalid_argument
// when sizes differ.
Difference difference(std::span<const double> got, std::span<const double> want);

// "relative L2 2.1e-03, largest difference 4.4e-05 at 17", or where the first value that is not finite
// stands.
std::string describe(const Difference& difference);

}  // namespace smla::core
