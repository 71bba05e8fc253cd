// Where the tensors of a call lie in memory: strides and offsets are arguments of a call, so what runs a case
// places its host tensors first.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "problem/problem.h"
#include "reference/host_tensors.h"

namespace smla::core {

// Of one tensor in its buffer, in elements. What no element of it covers is filled with 0xff bytes (NaN), and
// outputs have to leave it so.
struct Placement {
  std::optional<std::array<std::int64_t, 3>> strides = {};  // of batch, token, head; contiguous when absent
  std::int64_t before = 0;
  std::int64_t behind = 0;
};

struct Layout {
  Placement q = {}, kv = {}, o = {}, d_o = {}, indices = {}, topk_length = {}, lse = {}, delta = {};
  Placement d_q = {}, d_kv = {};
};

// [batch, token, head] rows of `columns` elements as they lie in a buffer.
struct Box {
  std::array<std::int64_t, 3> lengths = {0, 0, 0};
  std::int64_t columns = 0;
  std::int64_t element_bytes = 0;
  Placement placement = {};

  std::array<std::int64_t, 3> strides() const;
  std::int64_t rows() const { return lengths[0] * lengths[1] * lengths[2]; }
  std::int64_t row_bytes() const { return columns * element_bytes; }
  std::int64_t offset(std::int64_t row) const;  // in bytes, of a row counted in contiguous order
  std::int64_t bytes() const;                   // of the whole buffer
  bool fills_buffer() const;                    // contiguous, nothing before and behind
};

// Tensors that the problem has not are empty. topk_length is [B, S, 1] when it is per token.
struct Boxes {
  Box q, kv, o, d_o, indices, topk_length, lse, attn_sink, delta, d_q, d_kv, d_sink;
};
Boxes boxes_of(const Problem& problem, const HostTensors& tensors, const Layout& layout = {});

// Every tensor in an order of dimensions, with gaps and at an offset of its own, drawn by `seed`: all that
// the contract allows. 0 is the contiguous layout.
Layout drawn_layout(const Problem& problem, const HostTensors& tensors, std::uint64_t seed);

// The buffer's bytes: rows that are contiguous in `values`, and 0xff around them.
template <class T>
std::vector<unsigned char> placed(const Box& box, const std::vector<T>& values) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(box.bytes()), 0xff);
  const auto row_bytes = static_cast<std::size_t>(box.row_bytes());
  for (std::int64_t row = 0; row < box.rows() && row_bytes > 0; ++row) {
    std::memcpy(bytes.data() + box.offset(row), values.data() + row * box.columns, row_bytes);
  }
  return bytes;
}

// The rows in contiguous order; *intact becomes false when a byte outside them is no longer 0xff.
template <class T>
std::vector<T> taken(const Box& box, std::vector<unsigned char> bytes, bool* intact) {
  std::vector<T> values(static_cast<std::size_t>(box.rows() * box.columns));
  const auto row_bytes = static_cast<std::size_t>(box.row_bytes());
  for (std::int64_t row = 0; row < box.rows() && row_bytes > 0; ++row) {
    unsigned char* at = bytes.data() + box.offset(row);
    std::memcpy(values.data() + row * box.columns, at, row_bytes);
    std::memset(at, 0xff, row_bytes);
  }
  for (const unsigned char byte : bytes) *intact = *intact && byte == 0xff;
  return values;
}

}  // namespace smla::core
