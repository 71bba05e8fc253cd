#include "emulator/matrix.h"

#include <cstring>

#include "emulator/arithmetic.h"
#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

// Element (i, j) of an 8 x 8 matrix is in lane 4 i + j / 2, in the half j % 2 of its register.
struct MatrixArgument {
  u32 address;
  u32* registers;
};

MatrixArgument& matrix_of(const Warp& warp, u32 lane) {
  return *static_cast<MatrixArgument*>(warp.meeting.argument[lane]);
}

struct MmaArgument {
  float* d;
  const u32* a;
  u32 b[2];
};

}  // namespace

void call_ldmatrix(u32* r, u32 address, int transposed) {
  note_place();
  MatrixArgument mine = {address, r};
  collective(kLdmatrix, static_cast<u64>(transposed), &mine, "ldmatrix", [&](Warp& warp) {
    Cta& cta = *me().cta;
    begin_load(cta, warp);
    for (u32 m = 0; m < 4; ++m) {
      u16 matrix[8][8];
      for (u32 row = 0; row < 8; ++row) {
        Lane& lane = lane_of(cta, warp.index, m * 8 + row);
        const u32 from = own_shared(matrix_of(warp, m * 8 + row).address, 16, 16, "ldmatrix");
        shared_read(lane, from, 16, "ldmatrix");
        std::memcpy(matrix[row], cta.shared.data(from), 16);
      }
      for (u32 lane = 0; lane < kLanes; ++lane) {
        const u32 i = lane / 4, j = lane % 4 * 2;
        const u32 low = transposed ? matrix[j][i] : matrix[i][j];
        const u32 high = transposed ? matrix[j + 1][i] : matrix[i][j + 1];
        matrix_of(warp, lane).registers[m] = low | high << 16;
      }
    }
  });
}

void call_stmatrix(u32 address, const u32* r) {
  note_place();
  u32 registers[4];
  std::memcpy(registers, r, sizeof registers);
  MatrixArgument mine = {address, registers};
  collective(kStmatrix, 0, &mine, "stmatrix", [&](Warp& warp) {
    Cta& cta = *me().cta;
    for (u32 m = 0; m < 4; ++m) {
      for (u32 row = 0; row < 8; ++row) {
        Lane& lane = lane_of(cta, warp.index, m * 8 + row);
        const u32 to = own_shared(matrix_of(warp, m * 8 + row).address, 16, 16, "stmatrix");
        shared_write(cta, lane, to, 16, "stmatrix");
        u32 words[4];
        for (u32 j = 0; j < 4; ++j) words[j] = matrix_of(warp, row * 4 + j).registers[m];
        std::memcpy(cta.shared.data(to), words, 16);
      }
    }
  });
}

// A: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and on, and the same 8 columns further; B: k rows likewise,
// column l / 4; D as A's rows, columns 2 (l % 4) and on.
void call_mma(float* d, const u32* a, u32 b0, u32 b1, int is_bf16) {
  note_place();
  MmaArgument mine = {d, a, {b0, b1}};
  collective(kMma, static_cast<u64>(is_bf16), &mine, "mma.sync", [&](Warp& warp) {
    ++machine().report->mmas;
    const bool bf16 = is_bf16 != 0;
    float left[16][16], right[16][8];
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const auto& argument = *static_cast<MmaArgument*>(warp.meeting.argument[lane]);
      const u32 row = lane / 4, k = lane % 4 * 2;
      for (u32 i = 0; i < 4; ++i) {
        float* target = &left[row + i % 2 * 8][k + i / 2 * 8];
        target[0] = operand_to_float(static_cast<u16>(argument.a[i] & 0xffffu), bf16);
        target[1] = operand_to_float(static_cast<u16>(argument.a[i] >> 16), bf16);
      }
      for (u32 i = 0; i < 2; ++i) {
        right[k + i * 8][row] = operand_to_float(static_cast<u16>(argument.b[i] & 0xffffu), bf16);
        right[k + i * 8 + 1][row] = operand_to_float(static_cast<u16>(argument.b[i] >> 16), bf16);
      }
    }
    float product[16][8] = {};
    for (u32 row = 0; row < 16; ++row) {
      for (u32 k = 0; k < 16; ++k) {
        for (u32 column = 0; column < 8; ++column) product[row][column] += left[row][k] * right[k][column];
      }
    }
    for (u32 lane = 0; lane < kLanes; ++lane) {
      float* out = static_cast<MmaArgument*>(warp.meeting.argument[lane])->d;
      for (u32 i = 0; i < 4; ++i) out[i] += product[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
  });
}

}  // namespace smla::core::emulator
