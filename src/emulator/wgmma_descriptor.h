// The 64-bit matrix descriptor of wgmma: start address, two byte offsets, swizzle mode. Source: PTX ISA,
// "Matrix Descriptor Format" and "Strides".
#pragma once

#include "emulator/clock.h"

namespace smla::core::emulator {

struct WgmmaDescriptor {
  u32 start, leading, stride, base;
  u32 mode;  // 0: none, 1: 128 bytes, 2: 64 bytes, 3: 32 bytes

  explicit WgmmaDescriptor(u64 bits)
      : start(field(bits, 0)),
        leading(field(bits, 16)),
        stride(field(bits, 32)),
        base(static_cast<u32>(bits >> 49) & 7),
        mode(static_cast<u32>(bits >> 62)) {}

  // Address of a 16-byte piece. K-major: row `row` of M or N, piece `piece` of K.
  u32 k_major(u32 row, u32 piece) const {
    if (mode == 0) return swizzled(start + (row >> 3) * stride + (row & 7) * 16 + piece * leading);
    return swizzled(start + (row >> 3) * stride + (row & 7) * span() + piece * 16);
  }
  // MN-major: piece `piece` of M or N, row `row` of K.
  u32 mn_major(u32 piece, u32 row) const {
    if (mode == 0) return swizzled(start + piece * stride + (row >> 3) * leading + (row & 7) * 16);
    const u32 pieces = span() / 16;
    return swizzled(start + piece / pieces * leading + piece % pieces * 16 + (row >> 3) * stride +
                    (row & 7) * span());
  }

 private:
  static u32 field(u64 bits, u32 shift) { return static_cast<u32>((bits >> shift) & 0x3fff) << 4; }
  u32 span() const { return mode == 1 ? 128 : mode == 2 ? 64 : 32; }  // bytes of a row of the swizzle atom
  u32 swizzled(u32 address) const {
    address &= 0x3ffff;
    const u32 mask = mode == 1 ? 7 : mode == 2 ? 3 : mode == 3 ? 1 : 0;
    return address ^ ((((address >> 7) - base) & mask) << 4);
  }
};

// Calls visit(address, mn, k) for each 16-byte piece of an operand's rows first .. first + count - 1 of M or
// N and its 16 rows of K: eight elements from (mn, k) on, along K, or along M or N when it is `transposed`.
template <class Visit>
void each_piece(const WgmmaDescriptor& descriptor, bool transposed, u32 first, u32 count, Visit visit) {
  if (transposed) {
    for (u32 k = 0; k < 16; ++k) {
      for (u32 piece = first / 8; piece < (first + count) / 8; ++piece) {
        visit(descriptor.mn_major(piece, k), piece * 8, k);
      }
    }
  } else {
    for (u32 row = first; row < first + count; ++row) {
      for (u32 piece = 0; piece < 2; ++piece) visit(descriptor.k_major(row, piece), row, piece * 8);
    }
  }
}

}  // namespace smla::core::emulator
