#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "driver/memory.h"
#include "reference/bounds.h"
#include "reference/half.h"
#include "reference/layout.h"
#include "reference/reference.h"

namespace smla::core {
namespace {

// `samples` positions spread over [0, count), the first and the last among them.
std::vector<std::int64_t> spread(std::int64_t count, std::int64_t samples) {
  std::vector<std::int64_t> positions;
  samples = std::min(samples, count);
  for (std::int64_t i = 0; i < samples; ++i) {
    positions.push_back(samples == 1 ? 0 : i * (count - 1) / (samples - 1));
  }
  return positions;
}

// A device tensor in host memory, contiguous, read as double.
class Downloaded {
 public:
  Downloaded(const DeviceBuffer& buffer, const Box& box, DType dtype, cuda::Stream stream, bool* intact)
      : dtype_(dtype), fp32_(box.element_bytes == 4), bytes_(buffer.bytes()) {
    if (!bytes_.empty()) copy_to_host(bytes_.data(), buffer.data(), bytes_.size(), stream);
    if (box.fills_buffer()) return;
    if (fp32_) {
      replace(taken<std::uint32_t>(box, std::move(bytes_), intact));
    } else {
      replace(taken<std::uint16_t>(box, std::move(bytes_), intact));
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size() / (fp32_ ? 4 : 2)); }
  double at(std::int64_t i) const {
    if (fp32_) return static_cast<double>(read<float>(i));
    return static_cast<double>(to_float(dtype_, read<std::uint16_t>(i)));
  }
  std::int64_t first_non_finite() const {
    for (std::int64_t i = 0; i < size(); ++i) {
      if (!std::isfinite(at(i))) return i;
    }
    return -1;
  }
  std::vector<double> rows(const std::vector<std::int64_t>& wanted, std::int64_t width) const {
    std::vector<double> values;
    for (const std::int64_t row : wanted) {
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) values.push_back(at(i));
    }
    return values;
  }

 private:
  template <class T>
  void replace(const std::vector<T>& values) {
    bytes_.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data(), values.data(), bytes_.size());
  }
  template <class T>
  T read(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }
  DType dtype_;
  bool fp32_;
  std::vector<unsigned char> bytes_;
};

// The sampled tokens as a call of their own, B = 1 a token and without a causal test: their lists hold only
// what counts. A forward of it is what these tokens' o and lse should be.
Forward forward_of(const Problem& problem, const HostTensors& tensors, std::int64_t token,
                   Problem& alone_problem) {
  alone_problem = problem;
  alone_problem.causal = false;
  alone_problem.has_topk_length = false;
  HostTensors alone;
  const std::int64_t b = token / tensors.queries, s = token % tensors.queries;
  alone.queries = 1;
  alone.keys = tensors.keys;
  alone.topk = tensors.topk;
  alone.scale = tensors.scale;
  const auto slice = [](const auto& values, std::int64_t index, std::int64_t width) {
    return std::remove_cvref_t<decltype(values)>(values.begin() + index * width,
                                                 values.begin() + (index + 1) * width);
  };
  alone.q = slice(tensors.q, token, std::int64_t{problem.heads} * problem.d_qk());
  alone.d_o = slice(tensors.d_o, token, std::int64_t{problem.heads} * problem.d_v);
  alone.kv = slice(tensors.kv, b, tensors.keys * problem.kv_groups * problem.d_qk());
  alone.attn_sink = tensors.attn_sink;
  if (problem.has_delta) alone.delta.resize(static_cast<std::size_t>(problem.heads));
  for (int g = 0; g < problem.kv_groups; ++g) {
    std::vector<std::int32_t> list = attended_rows(problem, tensors, b, s, g);
    list.resize(static_cast<std::size_t>(tensors.topk), -1);
    alone.indices.insert(alone.indices.end(), list.begin(), list.end());
  }
  return forward(alone_problem, alone);
}

void check_forward(const Problem& p, const HostTensors& tensors, const std::vector<std::int64_t>& tokens,
                   double bound, std::vector<CheckedTensor>& checked) {
  std::vector<double> o, lse, want_o, want_lse;
  for (const std::int64_t token : tokens) {
    Problem alone;
    const Forward want = forward_of(p, tensors, token, alone);
    for (int h = 0; h < p.heads; ++h) {
      const auto row = static_cast<std::size_t>(token * p.heads + h);
      const auto width = static_cast<std::size_t>(p.d_v);
      const auto head = static_cast<std::size_t>(h);
      const float want_row_lse = want.lse[head];
      if (!std::isfinite(want_row_lse)) continue;  // a row that attends to nothing
      want_lse.push_back(static_cast<double>(want_row_lse));
      lse.push_back(static_cast<double>(tensors.lse[row]));
      for (std::size_t c = 0; c < width; ++c) {
        o.push_back(static_cast<double>(to_float(p.dtype, tensors.o[row * width + c])));
        want_o.push_back(static_cast<double>(to_float(p.dtype, want.o[head * width + c])));
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(tokens.size());
  checked.push_back(compared("lse", rows, lse, want_lse, 1e-5));  // fp32 sums of a few thousand terms
  checked.push_back(compared("o", rows, o, want_o, bound));
}

}  // namespace

CheckedTensor compared(std::string name, std::int64_t rows, const std::vector<double>& got,
                       const std::vector<double>& want, double bound, double noise) {
  const Difference d = difference(got, want);
  return {std::move(name), rows, d, bound, is_close(d, want, bound, noise)};
}

std::vector<CheckedTensor> check_outputs(const Problem& p, const HostTensors& tensors, const DeviceCall& call,
                                         std::int64_t samples) {
  const double bound = gradient_bound(p, tensors);
  const cuda::Stream stream = call.stream.handle();
  bool intact = true;
  const Downloaded d_q(call.d_q, call.boxes.d_q, p.dtype, stream, &intact);
  const Downloaded d_kv(call.d_kv, call.boxes.d_kv, p.dtype, stream, &intact);
  const Downloaded d_sink(call.d_sink, call.boxes.d_sink, p.dtype, stream, &intact);
  const std::vector<std::int64_t> tokens = spread(tensors.batch * tensors.queries, samples);
  const std::vector<std::int64_t> rows = spread(tensors.batch * tensors.keys, samples);
  const Gradients want = backward_rows(p, tensors, tokens, rows);

  std::vector<CheckedTensor> checked;
  if (call.own_forward) check_forward(p, tensors, tokens, accuracy_bound(p.dtype), checked);
  const auto compare = [&](std::string name, const Downloaded& got, const std::vector<std::int64_t>& which,
                           std::int64_t width, const std::vector<double>& wanted, double bound_here,
                           double noise) {
    CheckedTensor result =
        compared(std::move(name), std::ssize(which), got.rows(which, width), wanted, bound_here, noise);
    result.difference.first_non_finite = got.first_non_finite();
    result.right = result.right && result.difference.finite();
    checked.push_back(std::move(result));
  };
  const double all_tokens = static_cast<double>(std::max<std::int64_t>(1, tensors.batch * tensors.queries));
  const double share = std::sqrt(static_cast<double>(tokens.size()) / all_tokens);
  compare("d_q", d_q, tokens, std::int64_t{p.heads} * p.d_qk(), want.d_q, bound,
          share * d_q_noise(p, tensors));
  compare("d_kv", d_kv, rows, std::int64_t{p.kv_groups} * p.d_qk(), want.d_kv, bound, 0);
  if (p.has_sink) compare("d_sink", d_sink, {0}, p.heads, want.d_sink, kSinkBound, d_sink_noise(p, tensors));
  if (!intact) checked.push_back({"surroundings", 0, {}, 0, false});
  return checked;
}

}  // namespace smla::core
