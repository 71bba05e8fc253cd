// Running a case of smla-check, on a GPU or on the CPU, and comparing it with the fp64 reference.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "check_case.h"
#include "config/config.h"
#include "emulator/host_compiler.h"
#include "emulator/report.h"
#include "generator/kernel_source.h"
#include "json_report.h"

namespace smla::core {

struct CheckResult {
  std::string place;  // a GPU's name, or "CPU"
  std::string kernels;
  std::vector<CheckedTensor> checked;
  std::optional<emulator::Report> report;  // on the CPU

  bool passed() const;
};

// o and lse come from the fp64 forward, or in long calls from a plain CUDA forward; layouts and poison need
// the former, or are refused (invalid_argument).
CheckResult check_on_gpu(const CheckCase& c, int device);

// Kernels of one problem compiled for the CPU, to be used by any number of cases.
struct CpuKernels {
  Config config;
  KernelSource source;
  std::unique_ptr<emulator::CompiledKernels> compiled;
  std::shared_ptr<const CpuKernels> fallback = {};  // with partial sums
};
CpuKernels cpu_kernels(const ProblemFlags& flags, const Arch& arch);

struct CpuRuns {
  int schedules = 1;  // orders of execution that are tried
  std::uint32_t virtual_sms = 2;
};
CheckResult check_on_cpu(const CheckCase& c, const CpuKernels& kernels, const CpuRuns& runs);

std::string describe(const CheckCase& c, const CheckResult& result);
Json to_json(const CheckCase& c, const CheckResult& result);

}  // namespace smla::core
