#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace smla::core {

using Digest = std::array<unsigned char, 32>;

// SHA-256 of FIPS 180-4.
Digest sha256(std::string_view bytes);

// 64 lower-case hexadecimal digits of it.
std::string sha256_hex(std::string_view bytes);

}  // namespace smla::core
