// Written with the vector extension that gcc and clang share, and compiled twice on x86-64: for every
// machine, and for those with AVX2 and FMA, which are several times faster. The choice is made once, by what
// the machine reports.
#include "reference/products.h"

#include <algorithm>
#include <cstring>

namespace smla::core {
namespace {

#define SMLA_INLINE inline __attribute__((always_inline))

typedef double Vector __attribute__((vector_size(32)));  // NOLINT: a typedef is what the extension takes
constexpr std::int64_t kWidth = 4;

SMLA_INLINE void load(Vector& v, const double* from) {
  std::memcpy(&v, from, sizeof v);
}

// Rows a tile: what a pass over the left operand, which lies in L2, is shared by.
constexpr int kTileRows = 4;
constexpr int kTileLeft = 2;

template <int kLeft, int kRows>
SMLA_INLINE void dot_tile(const double* left, std::int64_t left_pitch, const double* const* rows,
                          std::int64_t columns, double* out, std::int64_t out_pitch) {
  Vector sums[kLeft][kRows] = {};
  for (std::int64_t c = 0; c < columns; c += kWidth) {
    Vector a[kLeft];
    for (int i = 0; i < kLeft; ++i) load(a[i], left + i * left_pitch + c);
    for (int j = 0; j < kRows; ++j) {
      Vector b;
      load(b, rows[j] + c);
      for (int i = 0; i < kLeft; ++i) sums[i][j] += a[i] * b;
    }
  }
  for (int i = 0; i < kLeft; ++i) {
    for (int j = 0; j < kRows; ++j) {
      const Vector& s = sums[i][j];
      out[i * out_pitch + j] = (s[0] + s[1]) + (s[2] + s[3]);
    }
  }
}

template <int kRows>
SMLA_INLINE void dot_rows(const double* left, std::int64_t left_pitch, std::int64_t left_count,
                          const double* const* rows, std::int64_t columns, double* out,
                          std::int64_t out_pitch) {
  std::int64_t i = 0;
  for (; i + kTileLeft <= left_count; i += kTileLeft) {
    dot_tile<kTileLeft, kRows>(left + i * left_pitch, left_pitch, rows, columns, out + i * out_pitch,
                               out_pitch);
  }
  for (; i < left_count; ++i) {
    dot_tile<1, kRows>(left + i * left_pitch, left_pitch, rows, columns, out + i * out_pitch, out_pitch);
  }
}

SMLA_INLINE void dot_products_body(const double* left, std::int64_t left_pitch, std::int64_t left_count,
                                   const double* const* rows, std::int64_t row_count, std::int64_t columns,
                                   double* out, std::int64_t out_pitch) {
  std::int64_t j = 0;
  for (; j + kTileRows <= row_count; j += kTileRows) {
    dot_rows<kTileRows>(left, left_pitch, left_count, rows + j, columns, out + j, out_pitch);
  }
  for (; j < row_count; ++j) dot_rows<1>(left, left_pitch, left_count, rows + j, columns, out + j, out_pitch);
}

template <int kOuts>
SMLA_INLINE void add_tile(double* const* outs, const double* weights, std::int64_t i_stride,
                          std::int64_t j_stride, const double* const* rows, std::int64_t row_count,
                          std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; c += 2 * kWidth) {
    Vector sums[kOuts][2] = {};
    for (std::int64_t j = 0; j < row_count; ++j) {
      Vector low, high;
      load(low, rows[j] + c);
      load(high, rows[j] + c + kWidth);
      for (int i = 0; i < kOuts; ++i) {
        const double weight = weights[i * i_stride + j * j_stride];
        sums[i][0] += weight * low;
        sums[i][1] += weight * high;
      }
    }
    for (int i = 0; i < kOuts; ++i) {  // one after the other: two of them may be the same row
      for (int half = 0; half < 2; ++half) {
        double* out = outs[i] + c + half * kWidth;
        Vector old;
        load(old, out);
        old += sums[i][half];
        std::memcpy(out, &old, sizeof old);
      }
    }
  }
}

SMLA_INLINE void add_weighted_rows_body(double* const* outs, std::int64_t out_count, const double* weights,
                                        std::int64_t i_stride, std::int64_t j_stride,
                                        const double* const* rows, std::int64_t row_count,
                                        std::int64_t columns) {
  constexpr std::int64_t kBlock = 16;  // rows that stay in cache while every out takes them
  for (std::int64_t j = 0; j < row_count; j += kBlock) {
    const std::int64_t count = std::min(kBlock, row_count - j);
    const double* w = weights + j * j_stride;
    std::int64_t i = 0;
    for (; i + 4 <= out_count; i += 4) {
      add_tile<4>(outs + i, w + i * i_stride, i_stride, j_stride, rows + j, count, columns);
    }
    for (; i < out_count; ++i)
      add_tile<1>(outs + i, w + i * i_stride, i_stride, j_stride, rows + j, count, columns);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void dot_products_avx2(const double* left, std::int64_t left_pitch,
                                                           std::int64_t left_count, const double* const* rows,
                                                           std::int64_t row_count, std::int64_t columns,
                                                           double* out, std::int64_t out_pitch) {
  dot_products_body(left, left_pitch, left_count, rows, row_count, columns, out, out_pitch);
}

__attribute__((target("avx2,fma"))) void add_weighted_rows_avx2(
    double* const* outs, std::int64_t out_count, const double* weights, std::int64_t i_stride,
    std::int64_t j_stride, const double* const* rows, std::int64_t row_count, std::int64_t columns) {
  add_weighted_rows_body(outs, out_count, weights, i_stride, j_stride, rows, row_count, columns);
}

bool has_avx2() {
  static const bool answer = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return answer;
}
#endif

}  // namespace

void dot_products(const double* left, std::int64_t left_pitch, std::int64_t left_count,
                  const double* const* rows, std::int64_t row_count, std::int64_t columns, double* out,
                  std::int64_t out_pitch) {
#if defined(__x86_64__)
  if (has_avx2())
    return dot_products_avx2(left, left_pitch, left_count, rows, row_count, columns, out, out_pitch);
#endif
  dot_products_body(left, left_pitch, left_count, rows, row_count, columns, out, out_pitch);
}

void add_weighted_rows(double* const* outs, std::int64_t out_count, const double* weights,
                       std::int64_t i_stride, std::int64_t j_stride, const double* const* rows,
                       std::int64_t row_count, std::int64_t columns) {
#if defined(__x86_64__)
  if (has_avx2()) {
    return add_weighted_rows_avx2(outs, out_count, weights, i_stride, j_stride, rows, row_count, columns);
  }
#endif
  add_weighted_rows_body(outs, out_count, weights, i_stride, j_stride, rows, row_count, columns);
}

}  // namespace smla::core
