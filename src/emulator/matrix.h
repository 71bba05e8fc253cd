// ldmatrix, stmatrix and mma.sync.
#pragma once

#include "emulator/clock.h"

namespace smla::core::emulator {

void call_ldmatrix(u32* r, u32 address, int transposed);
void call_stmatrix(u32 address, const u32* r);
void call_mma(float* d, const u32* a, u32 b0, u32 b1, int is_bf16);

}  // namespace smla::core::emulator
