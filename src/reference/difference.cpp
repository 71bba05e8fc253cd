#include "reference/difference.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace smla::core {

Difference difference(std::span<const double> got, std::span<const double> want) {
  if (got.size() != want.size()) {
    fail(Status::invalid_argument, "cannot compare {} elements with {}", got.size(), want.size());
  }
  Difference d;
  double squares = 0;
  double reference_squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    if (!std::isfinite(want[i]) && got[i] == want[i]) continue;
    if (!std::isfinite(got[i])) {
      d.first_non_finite = position;
      d.worst = position;
      d.relative_l2 = d.max_abs = std::numeric_limits<double>::infinity();
      return d;
    }
    const double gap = std::fabs(got[i] - want[i]);
    squares += gap * gap;
    reference_squares += want[i] * want[i];
    if (!(gap <= d.max_abs)) {
      d.max_abs = gap;
      d.worst = position;
    }
  }
  if (squares == 0) return d;
  d.relative_l2 = std::sqrt(squares) / std::sqrt(reference_squares);  // inf when the reference is all zero
  return d;
}

std::string describe(const Difference& d) {
  if (!d.finite()) return fmt::format("not finite at {}", d.first_non_finite);
  return fmt::format("relative L2 {:.3g}, largest difference {:.3g} at {}", d.relative_l2, d.max_abs,
                     d.worst);
}

}  // namespace smla::core
