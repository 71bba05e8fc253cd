// The cases of the contract on the emulator: every body in both schedules, with the layouts that it asks for.
#include <map>
#include <memory>
#include <string>

#include "cases_of_layouts.h"
#include "cases_of_lists.h"
#include "cases_of_numbers.h"
#include "cpu_kernels.h"
#include "gpu_call.h"

using namespace smla_test;
using emulator::GlobalBuffer;

namespace {

template <class T>
GlobalBuffer placed(const Box& box, const std::vector<T>& values, const char* name) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(box.bytes()), 0xff);
  const auto row_bytes = static_cast<std::size_t>(box.row_bytes());
  for (std::int64_t row = 0; row < box.rows() && row_bytes > 0; ++row) {
    std::memcpy(bytes.data() + box.offset(row), values.data() + row * box.columns, row_bytes);
  }
  GlobalBuffer buffer(bytes.size(), name, GlobalBuffer::Access::read_only);
  buffer.fill(bytes.data(), bytes.size());
  return buffer;
}

Tensor view(const GlobalBuffer& buffer, const Box& box) {
  if (buffer.bytes() == 0) return {nullptr, box.strides()};
  return {static_cast<char*>(buffer.data()) + box.placement.before * box.element_bytes, box.strides()};
}

// The rows in contiguous order; *intact becomes false when a byte outside them is no longer 0xff.
template <class T>
std::vector<T> taken(const GlobalBuffer& buffer, const Box& box, bool* intact) {
  const auto* begin = static_cast<const unsigned char*>(buffer.data());
  std::vector<unsigned char> bytes(begin, begin + buffer.bytes());
  std::vector<T> values(static_cast<std::size_t>(box.rows() * box.columns));
  const auto row_bytes = static_cast<std::size_t>(box.row_bytes());
  for (std::int64_t row = 0; row < box.rows() && row_bytes > 0; ++row) {
    unsigned char* at = bytes.data() + box.offset(row);
    std::memcpy(values.data() + row * box.columns, at, row_bytes);
    std::memset(at, 0xff, row_bytes);
  }
  *intact =
      *intact && std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0xff; });
  return values;
}

// Cases share problems: each is compiled once.
const CpuSubject& subject_of(const Case& c, const Arch& arch) {
  static std::map<std::string, std::unique_ptr<CpuSubject>> known;
  const Config config = choose_config(c.problem, arch, c.request).config;
  std::unique_ptr<CpuSubject>& subject = known[canonical_name(c.problem) + canonical_name(config)];
  if (!subject) subject = std::make_unique<CpuSubject>(c.problem, config, generate(c.problem, config));
  return *subject;
}

Outputs run_on_emulator(const Case& c, const Arch& arch, std::uint64_t seed) {
  const Problem& p = c.problem;
  const HostTensors& t = c.tensors;
  const std::array<std::int64_t, 3> heads = {t.batch, t.queries, p.heads},
                                    lists = {t.batch, t.queries, p.kv_groups},
                                    rows = {t.batch, t.keys, p.kv_groups};
  const Box q = {heads, p.d_qk(), 2, c.layout.q}, kv = {rows, p.d_qk(), 2, c.layout.kv},
            o = {heads, p.d_v, 2, c.layout.o}, d_o = {heads, p.d_v, 2, c.layout.d_o},
            indices = {lists, t.topk, 4, c.layout.indices}, lse = {heads, 1, 4, c.layout.lse},
            length = {{t.batch, p.has_topk_length ? t.queries : 0, t.length_per_group ? p.kv_groups : 1},
                      1,
                      4,
                      c.layout.topk_length},
            delta = {{t.batch, p.has_delta ? t.queries : 0, p.heads}, 1, 4, c.layout.delta},
            sink = {{1, 1, p.has_sink ? p.heads : 0}, 1, 4, {}}, d_q = {heads, p.d_qk(), 2, c.layout.d_q},
            d_kv = {rows, p.d_qk(), p.d_kv_type == DkvType::fp32 ? 4 : 2, c.layout.d_kv};
  const GlobalBuffer in_q = placed(q, t.q, "q"), in_kv = placed(kv, t.kv, "kv"), in_o = placed(o, t.o, "o"),
                     in_d_o = placed(d_o, t.d_o, "d_o"), in_indices = placed(indices, t.indices, "indices"),
                     in_length = placed(length, t.topk_length, "topk_length"),
                     in_lse = placed(lse, t.lse, "lse"), in_delta = placed(delta, t.delta, "delta"),
                     in_sink = placed(sink, t.attn_sink, "attn_sink");
  const auto output = [](const Box& box, const char* name) {
    return GlobalBuffer(static_cast<std::size_t>(box.bytes()), name, GlobalBuffer::Access::read_write);
  };
  const GlobalBuffer out_d_q = output(d_q, "d_q"), out_d_kv = output(d_kv, "d_kv"),
                     out_d_sink = output(sink, "d_sink");

  Call call;
  call.lengths = {.batch = t.batch, .queries = t.queries, .keys = t.keys, .topk = t.topk};
  call.order = c.order;
  call.q = view(in_q, q);
  call.kv = view(in_kv, kv);
  call.o = view(in_o, o);
  call.d_o = view(in_d_o, d_o);
  call.indices = view(in_indices, indices);
  call.topk_length = view(in_length, length);
  if (!t.length_per_group) call.topk_length.strides[2] = 0;
  call.lse = view(in_lse, lse);
  call.delta = view(in_delta, delta);
  call.attn_sink = in_sink.bytes() ? in_sink.data() : nullptr;
  call.d_q = view(out_d_q, d_q);
  call.d_kv = view(out_d_kv, d_kv);
  call.d_sink = out_d_sink.bytes() ? out_d_sink.data() : nullptr;
  call.scale = t.scale;
  call.query_offset = t.query_offset;

  const CpuSubject& subject = subject_of(c, arch);
  const emulator::Report report =
      emulator::run_on_cpu(subject.source, *subject.kernels, p, subject.config, call,
                           {.seed = seed, .virtual_sms = 2, .step_limit = 50'000'000});
  INFO(subject.source.name << ", seed " << seed << "\n" << emulator::describe(report));
  REQUIRE(report.clean());
  Outputs outputs;
  bool* intact = &outputs.surroundings_intact;
  outputs.d_q = taken<std::uint16_t>(out_d_q, d_q, intact);
  if (d_kv.element_bytes == 2) {
    outputs.d_kv = taken<std::uint16_t>(out_d_kv, d_kv, intact);
  } else {
    outputs.d_kv_fp32 = taken<float>(out_d_kv, d_kv, intact);
  }
  outputs.d_sink = taken<float>(out_d_sink, sink, intact);
  return outputs;
}

void check_on_emulator(CaseBody body) {
  require_host_compiler();
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_80"), 2); }, 3);
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_90a"), 5); }, 64);
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_90a"), 6); }, 5);  // 8 tokens a CTA
}

// The same with sums of integers.
void check_deterministic_on_emulator(CaseBody body) {
  require_host_compiler();
  const auto run_with = [](const char* arch) {
    return [arch](Case c) {
      c.problem.deterministic = true;
      return run_on_emulator(c, parse_arch(arch), 3);
    };
  };
  body(run_with("sm_80"), 3);
  body(run_with("sm_90a"), 64);
}

}  // namespace

#define SMLA_CPU_CASE(name, body) \
  TEST_CASE(name) {               \
    check_on_emulator(body);      \
  }

#define SMLA_DETERMINISTIC_CPU_CASE(name, body) \
  TEST_CASE("Deterministic: " name) {           \
    check_deterministic_on_emulator(body);      \
  }

SMLA_CASES_OF_LISTS(SMLA_CPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_CPU_CASE)
SMLA_CASES_OF_LAYOUTS(SMLA_CPU_CASE)
SMLA_CASES_OF_LISTS(SMLA_DETERMINISTIC_CPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_DETERMINISTIC_CPU_CASE)
