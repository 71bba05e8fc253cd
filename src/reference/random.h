// Random numbers as functions of (key, index): the same on every machine and for every number of threads.
// Integer arithmetic and one multiplication, since the logarithms and cosines of C libraries differ in their
// last bit.
#pragma once

#include <cstdint>

namespace smla::core {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that scatters every bit.
inline std::uint64_t scatter_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return scatter_bits(scatter_bits(key) + index * 0x9e3779b97f4a7c15u);
}

// In [0, 1), a multiple of 2^-53.
inline double random_uniform(std::uint64_t key, std::uint64_t index) {
  return static_cast<double>(random_bits(key, index) >> 11) * 0x1p-53;
}

// In [0, count); the bias is below count / 2^64. count >= 1.
inline std::int64_t random_below(std::uint64_t key, std::uint64_t index, std::int64_t count) {
  return static_cast<std::int64_t>(random_bits(key, index) % static_cast<std::uint64_t>(count));
}

// Mean 0, variance 1, close to normal: the sum of eight 16-bit uniform numbers, which ends at 4.9.
inline double random_normal(std::uint64_t key, std::uint64_t index) {
  std::int64_t sum = 0;
  for (std::uint64_t half = 0; half < 2; ++half) {
    const std::uint64_t bits = random_bits(key, 2 * index + half);
    for (int i = 0; i < 4; ++i) sum += static_cast<std::int64_t>((bits >> (16 * i)) & 0xffffu);
  }
  constexpr double kInverseDeviation = 1.8688228e-5;  // 1 / sqrt(8 * (65536^2 - 1) / 12)
  return static_cast<double>(2 * sum - 8 * 65535) * 0.5 * kInverseDeviation;
}

// Where a permutation of [0, count), chosen by key, sends index: a Feistel network over the next even number
// of bits, walked until it lands inside. Distinct indices give distinct rows, without memory. 0 <= index <
// count.
inline std::int64_t permuted(std::uint64_t key, std::int64_t index, std::int64_t count) {
  int half_bits = 1;
  while ((std::int64_t{1} << (2 * half_bits)) < count) ++half_bits;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t value = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = value >> half_bits;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = left ^ (random_bits(key + round, right) & mask);
      left = right;
      right = mixed;
    }
    value = (left << half_bits) | right;
  } while (static_cast<std::int64_t>(value) >= count);
  return static_cast<std::int64_t>(value);
}

}  // namespace smla::core
