#include "reference/bounds.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/half.h"

namespace smla::core {
namespace {

constexpr double kFp32Noise = 0x1p-18;
constexpr std::int64_t kFewDs = 1000;

double square_of(DType dtype, std::uint16_t bits) {
  const double value = static_cast<double>(to_float(dtype, bits));
  return std::isfinite(value) ? value * value : 0;
}

// Of the finite elements: rows that nobody reads may hold NaN.
struct Squares {
  double sum = 0;
  std::int64_t finite = 0;
};

Squares squares(DType dtype, const std::vector<std::uint16_t>& bits) {
  Squares s;
  for (const std::uint16_t b : bits) {
    s.sum += square_of(dtype, b);
    s.finite += std::isfinite(to_float(dtype, b));
  }
  return s;
}

}  // namespace

double accuracy_bound(DType dtype) {
  return dtype == DType::bf16 ? 3e-3 : 5e-4;
}

double single_rounding_bound(DType dtype) {
  return dtype == DType::bf16 ? 6e-3 : 7.5e-4;
}

double d_q_noise(const Problem& p, const HostTensors& t) {
  const Squares kv = squares(p.dtype, t.kv);
  if (kv.finite == 0) return 0;
  const double mean_square = kv.sum / static_cast<double>(kv.finite);
  return static_cast<double>(t.scale) * std::sqrt(squares(p.dtype, t.d_o).sum) * mean_square *
         std::sqrt(static_cast<double>(p.d_qk())) * kFp32Noise;
}

double d_sink_noise(const Problem& p, const HostTensors& t) {
  double sum = 0;
  const auto width = static_cast<std::size_t>(p.d_v);
  for (std::size_t row = 0; row < t.o.size(); row += width) {
    double o = 0, d_o = 0;
    for (std::size_t i = row; i < row + width; ++i) {
      o += square_of(p.dtype, t.o[i]);
      d_o += square_of(p.dtype, t.d_o[i]);
    }
    sum += o * d_o;
  }
  return std::sqrt(sum) * kFp32Noise;
}

double gradient_bound(const Problem& p, const HostTensors& t) {
  std::int64_t d_s = 0;
  for (std::int64_t b = 0; b < t.batch; ++b) {
    for (std::int64_t s = 0; s < t.queries; ++s) {
      for (int g = 0; g < p.kv_groups && d_s < kFewDs; ++g) {
        d_s += p.heads_per_group() * std::ssize(attended_rows(p, t, b, s, g));
      }
    }
  }
  return d_s < kFewDs ? single_rounding_bound(p.dtype) : accuracy_bound(p.dtype);
}

bool is_close(const Difference& d, std::span<const double> want, double bound, double noise) {
  if (!d.finite()) return false;
  double sum = 0;
  for (const double value : want) sum += value * value;
  const double norm = std::sqrt(sum);
  // Where the reference is all zero there is no relative error: the largest difference stands for it.
  const double error = d.worst < 0 ? 0 : norm > 0 ? d.relative_l2 * norm : d.max_abs;
  return error <= bound * norm + noise;
}

}  // namespace smla::core
