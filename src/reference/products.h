// The two matrix products of the reference, in double, over rows that are given by their addresses.
#pragma once

#include <cstdint>

namespace smla::core {

// out[i * out_pitch + j] = left_i . rows[j] over `columns` (a multiple of 8), for i < left_count, j <
// row_count; left_i starts at left + i * left_pitch.
void dot_products(const double* left, std::int64_t left_pitch, std::int64_t left_count,
                  const double* const* rows, std::int64_t row_count, std::int64_t columns, double* out,
                  std::int64_t out_pitch);

// outs[i][c] += sum over j of weights[i * i_stride + j * j_stride] * rows[j][c], for c < columns (a multiple
// of 8). The same address may stand in outs more than once.
void add_weighted_rows(double* const* outs, std::int64_t out_count, const double* weights,
                       std::int64_t i_stride, std::int64_t j_stride, const double* const* rows,
                       std::int64_t row_count, std::int64_t columns);

}  // namespace smla::core
