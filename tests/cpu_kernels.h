// Kernels on the emulator, for tests: a source with its compiled form, and what became of running it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "config/config.h"
#include "emulator/host_compiler.h"
#include "emulator/plan_on_cpu.h"
#include "generator/generator.h"
#include "reference/difference.h"
#include "reference/inputs.h"
#include "reference/reference.h"

namespace smla_test {

// "emulated 812 kernels in 270 calls: 30112 CTAs, 4203392 wgmmas, 0 mmas, 83 s", which tools/test_counts.awk
// adds up.
inline std::string emulated_line() {
  const smla::core::emulator::Executed executed = smla::core::emulator::executed();
  if (executed.calls == 0) return "";
  const smla::core::emulator::Report& r = executed.all;
  return fmt::format("emulated {} kernels in {} calls: {} CTAs, {} wgmmas, {} mmas, {:.0f} s", r.launches,
                     executed.calls, r.ctas, r.wgmmas, r.mmas, r.cpu_seconds);
}
inline const bool kEmulatedIsTold = (print_at_end(emulated_line), true);

using namespace smla::core;

inline bool long_tests() {
  const char* wanted = std::getenv("SMLA_TESTS");
  return wanted && std::string(wanted) == "long";
}

// Leaves the test where the emulator cannot run.
inline void require_emulator() {
#ifdef SMLA_SANITIZED  // by CMake: clang 14 has no macro of its own for it
  SKIP("sanitizers do not follow the emulator's switching of stacks");
#endif
}

// The same where its kernels cannot be compiled.
inline void require_host_compiler() {
  require_emulator();
  try {
    emulator::find_host_compiler();
  } catch (const Error& error) {
    SKIP(error.what());
  }
}

struct CpuSubject {
  Problem problem;
  Config config;
  KernelSource source;
  std::unique_ptr<emulator::CompiledKernels> kernels;

  CpuSubject(const Problem& p, const Config& c, KernelSource s)
      : problem(p), config(c), source(std::move(s)), kernels(emulator::compile_for_host(source)) {}
};

inline CpuSubject make_subject(const Problem& problem, const Arch& arch, const ConfigRequest& request = {}) {
  const Config config = choose_config(problem, arch, request).config;
  return {problem, config, generate(problem, config)};
}

struct CpuVerdict {
  emulator::Report report;
  Difference d_q, d_kv, d_sink;
  bool values_ok = true;

  bool good() const { return values_ok && report.clean(); }
  // "race-RAW wrong-values": the kinds of findings, each once.
  std::string kinds() const {
    std::vector<std::string> kinds;
    for (const auto& finding : report.findings) kinds.push_back(finding.kind);
    if (!values_ok) kinds.push_back("wrong-values");
    std::sort(kinds.begin(), kinds.end());
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    std::string text;
    for (const auto& kind : kinds) text += (text.empty() ? "" : " ") + kind;
    return text;
  }
};

// Within the bound, or as close to zero as sums of fp32 come where the gradient is nothing but their
// rounding.
inline bool is_close(const Difference& d, double bound) {
  return d.finite() && (d.relative_l2 <= bound || d.max_abs < 1e-5);
}

// `change` is applied to the call before it runs.
template <class Change>
CpuVerdict run_subject(const CpuSubject& subject, const HostTensors& tensors, const Gradients& want,
                       OrderRequest order, const emulator::CpuOptions& options, const Change& change) {
  const Problem& p = subject.problem;
  emulator::CpuCall call = emulator::make_cpu_call(p, tensors, order);
  change(call.call);
  CpuVerdict verdict;
  verdict.report =
      emulator::run_on_cpu(subject.source, *subject.kernels, p, subject.config, call.call, options);
  const emulator::CpuOutputs got = emulator::outputs_of(p, call);
  const double bound = p.dtype == DType::bf16 ? 3e-3 : 5e-4;
  verdict.d_q = difference(got.d_q, want.d_q);
  verdict.d_kv = difference(got.d_kv, want.d_kv);
  verdict.d_sink = difference(got.d_sink, want.d_sink);
  verdict.values_ok =
      is_close(verdict.d_q, bound) && is_close(verdict.d_kv, bound) && is_close(verdict.d_sink, 1e-3);
  return verdict;
}

inline CpuVerdict run_subject(const CpuSubject& subject, const HostTensors& tensors, const Gradients& want,
                              OrderRequest order, const emulator::CpuOptions& options) {
  return run_subject(subject, tensors, want, order, options, [](Call&) {});
}

}  // namespace smla_test
