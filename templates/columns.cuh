// The column order of d_kv_sum.
//
// A thread's four accumulators of one kv row in two neighbouring 8-column tiles (columns 2l, 2l + 1, 8 + 2l, 9 + 2l of a
// block of 16; l = lane % 4) lie side by side in d_kv_sum, at 4l .. 4l + 3 of the block, so that one 16-byte reduction
// takes them all. Both mma.sync and wgmma lay accumulators out like this; postprocess puts the columns back.
#pragma once

// Column of the first of the two pairs that position 4 * quad of d_kv_sum holds; the second pair is 8 columns on.
PTX_FN int column_of_quad(int quad) { return (quad >> 2) * 16 + (quad & 3) * 2; }

// Adds a thread's four accumulators of one row; `sum` points at them in d_kv_sum.
PTX_FN void add_quad(float* sum, float x, float y, float z, float w) {
  if (Spec::vector_reductions) {
    red_add_v4_f32(sum, x, y, z, w);
  } else {
    red_add_f32(sum, x);
    red_add_f32(sum + 1, y);
    red_add_f32(sum + 2, z);
    red_add_f32(sum + 3, w);
  }
}
