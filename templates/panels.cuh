// How 16-bit matrices lie in shared memory: panels of 64 columns, a row of a panel is 128 bytes, and its eight 16-byte
// chunks are exchanged by the row's number (the 128-byte swizzle of wgmma's descriptors), so that eight rows of one
// column chunk fall on different banks.
#pragma once

// Byte offset of 16-byte chunk `chunk` (8 columns) of `row` in a matrix of Rows rows.
template <int Rows>
PTX_FN u32 panel_offset(int row, int chunk) {
  return (u32)((chunk >> 3) * (Rows * 128) + row * 128 + (((chunk & 7) ^ (row & 7)) << 4));
}
