// Random cases of smla-check: problems, configs, lengths, lists, layouts and orders that the rules allow.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check_case.h"
#include "config/arch.h"
#include "run_check.h"

namespace smla::core {

// How large cases are. Compiling takes most of the time, so that several cases share the kernels of a
// problem.
struct FuzzSize {
  int cases_a_problem = 4;
  int most_heads = 128;  // without the multiples of 64 above: those as well when this is 128
  std::int64_t most_queries = 300, most_keys = 1200, most_topk = 600;
  std::int64_t most_work = 500'000;  // B * S * H * topk: the reference takes as long
};

FuzzSize gpu_fuzz_size();
FuzzSize cpu_fuzz_size();  // seconds a problem on the emulator

// Case `number` of a seed: the same on every machine, as long as the rules that choose configs are.
CheckCase fuzz_case(std::uint64_t seed, int number, const Arch& arch, const FuzzSize& size);

struct FuzzFailure {
  int number = 0;       // in the cases given
  std::string command;  // the line of smla-check that runs it alone
  std::string what;     // the report, or the sentence of an Error
};

struct FuzzReport {
  int cases = 0;     // that ran
  int problems = 0;  // kernels of so many problems and configs
  std::vector<FuzzFailure> failures;
};

// Told of every case before it runs: a hang has a name then.
using FuzzTrace = std::function<void(int number, const std::string& command)>;

// Runs cases one after another, on the emulator or on a GPU, whose kernels go through the cache; kernels are
// compiled beforehand on all cores. What throws is a failure too. Ends at the tenth failure, and at one of
// the CUDA driver's, after which no call of the process works.
FuzzReport fuzz_on_cpu(const std::vector<CheckCase>& cases, const Arch& arch, const FuzzTrace& trace = {});
FuzzReport fuzz_on_gpu(const std::vector<CheckCase>& cases, int device, const FuzzTrace& trace = {});

}  // namespace smla::core
