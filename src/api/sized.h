// Reading and writing structs of callers that were built with an older or newer header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace smla::core {

constexpr std::size_t kLargestStruct = 4096;  // a struct_size above is a struct that nobody initialised

// The caller's struct over `defaults`: fields behind its struct_size keep those. Error invalid_argument:
// null, a struct_size that no header ever had, or fields that this library does not know and that are not
// zero.
template <class T>
T read_sized(const T* from, const T& defaults, const char* what) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>);
  if (from == nullptr) fail(Status::invalid_argument, "{} is null", what);
  const std::size_t size = from->struct_size;
  if (size < 2 * sizeof(std::size_t) || size > kLargestStruct) {
    fail(Status::invalid_argument, "{}.struct_size = {}: {} was not initialised (smla_{}_init)", what, size,
         what, what);
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      fail(Status::invalid_argument,
           "{} has {} bytes, of which this smla knows {}, and byte {} is not zero: the program was built for "
           "a newer "
           "smla and asks for what this one cannot do",
           what, size, sizeof(T), i);
    }
  }
  T value = defaults;
  std::memcpy(&value, from, std::min(size, sizeof(T)));
  value.struct_size = sizeof(T);
  return value;
}

// Writes as much of `value` as the caller's struct has, zeroes what it has beyond, and sets its struct_size.
template <class T>
void write_sized(T* to, std::size_t size, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>);
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &value, std::min(size, sizeof(T)));
  if (size >= sizeof(std::size_t)) std::memcpy(static_cast<void*>(to), &size, sizeof size);
}

}  // namespace smla::core
