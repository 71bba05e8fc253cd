// The kernels of smla-bench --limits: they do what their rates are counted in, and nothing of it can be
// optimised away.
#include "device_limits.h"

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "compiler/compiler.h"
#include "driver/driver.h"
#include "emulator/global_memory.h"
#include "emulator/host_compiler.h"
#include "emulator/launch.h"
#include "emulator/report.h"
#include "reference/half.h"
#include "reference/random.h"

using namespace smla::core;
using namespace smla::core::emulator;

namespace {

bool compiler_found() {
  try {
    compiler_version();
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// The PTX of each entry.
std::string ptx_of(const std::string& ptx, const LimitKernel& k) {
  const std::size_t begin = ptx.find(".entry smla_limit_" + std::string(k.name) + "(");
  REQUIRE(begin != std::string::npos);
  return ptx.substr(begin, ptx.find(".entry ", begin + 1) - begin);
}

const LimitKernel& kernel_named(const std::vector<LimitKernel>& kernels, std::string_view name) {
  for (const LimitKernel& k : kernels) {
    if (k.name == name) return k;
  }
  FAIL("no kernel " << name);
  return kernels.front();
}

// As in device_limits.cuh.
struct Arguments {
  void *sums, *kv, *list, *operands, *out;
  int tiles;
};

// The kernels on the CPU: two CTAs, three tiles each, of a table of 96 rows.
struct OnCpu {
  static constexpr std::size_t kCtas = 2, kTiles = 3, kRows = 96, kEntries = kCtas * kTiles * 64;
  std::vector<LimitKernel> kernels = limit_kernels(parse_arch("sm_90a"));
  std::unique_ptr<CompiledKernels> compiled = compile_for_host(limits_source(parse_arch("sm_90a")));
  std::vector<std::int32_t> names = std::vector<std::int32_t>(kEntries);

  OnCpu() {
    for (std::size_t i = 0; i < kEntries; ++i) {
      names[i] = static_cast<std::int32_t>(random_below(3, i, kRows));
    }
  }

  // What the kernel leaves in the sums, or in `out`.
  std::vector<char> run(std::string_view name, bool wants_sums) const {
    const LimitKernel& k = kernel_named(kernels, name);
    using Access = GlobalBuffer::Access;
    const std::vector<char> zeros(kRows * static_cast<std::size_t>(k.row_bytes));
    const std::vector<std::uint16_t> ones(128 * 1024 / 2, to_operand(DType::bf16, 1));
    GlobalBuffer sums(zeros.size(), "sums", Access::read_write), kv(kRows * 576 * 2, "kv", Access::read_only);
    GlobalBuffer list(kEntries * 4, "list", Access::read_only);
    GlobalBuffer operands(128 * 1024, "operands", Access::read_only);
    GlobalBuffer out(kCtas * 256 * 4, "out", Access::read_write);
    if (wants_sums) sums.fill(zeros.data(), zeros.size());
    kv.fill(std::vector<char>(kv.bytes(), 1).data(), kv.bytes());
    list.fill(names.data(), list.bytes());
    operands.fill(ones.data(), operands.bytes());
    const auto entry =
        reinterpret_cast<void (*)(Arguments)>(compiled->entry("smla_limit_" + std::string(name)));
    const Arguments arguments = {sums.data(),     kv.data(),  list.data(),
                                 operands.data(), out.data(), static_cast<int>(kTiles)};
    Report report;
    launch(
        {kCtas, static_cast<std::uint32_t>(k.threads), static_cast<std::uint32_t>(k.shared_bytes)}, {},
        [&] { entry(arguments); }, report);
    for (const Finding& finding : report.findings) FAIL_CHECK(name << ": " << finding.text);
    const GlobalBuffer& result = wants_sums ? sums : out;
    const char* data = static_cast<const char*>(result.data());
    return {data, data + result.bytes()};
  }

  // How often the lists name each row.
  std::vector<int> additions() const {
    std::vector<int> times(kRows, 0);
    for (const std::int32_t row : names) ++times[static_cast<std::size_t>(row)];
    return times;
  }
};

template <class T>
T value_at(const std::vector<char>& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

MeasuredLimit measured(std::string_view name, std::int64_t rows, double cool, double steady) {
  return {.kernel = kernel_named(limit_kernels(parse_arch("sm_90a")), name),
          .rows = rows,
          .multiprocessors = 132,
          .timing = {.cool = cool, .steady = steady, .slowest = steady}};
}

}  // namespace

TEST_CASE("the kernels of the limits compile for every arch with all of their work in them") {
  if (!compiler_found()) SKIP("no NVRTC");
  for (const char* text : {"sm_80", "sm_86", "sm_90a", "sm_120"}) {
    const Arch arch = parse_arch(text);
    const std::vector<LimitKernel> kernels = limit_kernels(arch);
    const KernelSource source = limits_source(arch);
    const Cubin cubin = compile(source, arch);
    const std::string ptx = compile_to_ptx(source, arch);
    INFO(text << ": " << (cubin.warnings.empty() ? "" : cubin.warnings.front()));
    CHECK(cubin.warnings.empty());  // of wgmmas that ptxas serialises, too
    REQUIRE(cubin.kernels.size() == kernels.size());
    for (const LimitKernel& k : kernels) {
      INFO(text << " " << k.name);
      const KernelResources* compiled = find_kernel(cubin, "smla_limit_" + std::string(k.name));
      REQUIRE(compiled != nullptr);
      CHECK(compiled->spill_store_bytes == 0);
      CHECK(k.shared_bytes <= shared_memory_limit(arch));
      const std::string body = ptx_of(ptx, k);
      const std::string name(k.name);
      // Of one warp (of eight) and tile: 576 columns of 64 / 8 rows, 512 bytes an instruction, integers 256.
      if (name.ends_with("fp32")) CHECK(count_of(body, "red.relaxed.gpu.global.add.v4.f32") == 36);
      if (name.ends_with("fp16")) CHECK(count_of(body, "red.relaxed.gpu.global.add.noftz.v4.f16x2") == 18);
      if (name.ends_with("u64")) CHECK(count_of(body, "red.relaxed.gpu.global.add.u64") == 144);
      if (name.starts_with("gather")) CHECK(count_of(body, "cp.async.cg") == 36);  // of one thread of 128
      if (name.starts_with("wgmma")) CHECK(count_of(body, "wgmma.mma_async") == 16);
      // Their accumulators: two of 64 x 64 and of 64 x 32 a warpgroup.
      if (name == "wgmma_ss_n64") CHECK(compiled->registers >= 64);
      if (name == "wgmma_rs_n32") CHECK(compiled->registers >= 32);
    }
  }
}

TEST_CASE("an arch without an instruction has no limit of it") {
  const auto names = [](const char* arch) {
    std::string text;
    for (const LimitKernel& k : limit_kernels(parse_arch(arch))) text += std::string(k.name) + " ";
    return text;
  };
  CHECK(names("sm_80") == "reduce_u64 gather gather_reduce_u64 ");
  CHECK(names("sm_86") == "reduce_u64 ");  // two tiles do not fit its shared memory
  CHECK(names("sm_90") ==
        "reduce_fp32 reduce_fp16 reduce_u64 gather gather_reduce_fp32 gather_reduce_fp16 gather_reduce_u64 ");
  CHECK(names("sm_90a") ==
        "reduce_fp32 reduce_fp16 reduce_u64 gather gather_reduce_fp32 gather_reduce_fp16 gather_reduce_u64 "
        "wgmma_ss_n64 wgmma_rs_n32 ");
}

TEST_CASE("the kernels of the limits add to every column of every listed row, once an entry") {
#ifdef SMLA_SANITIZED
  SKIP("sanitizers do not follow the emulator's switching of stacks");
#endif
  const OnCpu cpu;
  const std::vector<int> times = cpu.additions();
  for (const std::string prefix : {"reduce_", "gather_reduce_"}) {
    const std::vector<char> fp32 = cpu.run(prefix + "fp32", true), fp16 = cpu.run(prefix + "fp16", true),
                            integers = cpu.run(prefix + "u64", true);
    for (std::size_t row = 0; row < OnCpu::kRows; ++row) {
      float sum = 0;
      double half_sum = 0;
      const double half = to_float(DType::fp16, 0x1419);
      for (int i = 0; i < times[row]; ++i) {
        sum += 0.001f;
        half_sum = to_float(DType::fp16, to_operand(DType::fp16, half_sum + half));
      }
      std::size_t wrong = 0;
      for (std::size_t column = 0; column < 576; ++column) {
        wrong += value_at<float>(fp32, row * 576 + column) != sum;
        wrong += static_cast<double>(
                     to_float(DType::fp16, value_at<std::uint16_t>(fp16, row * 576 + column))) != half_sum;
        wrong += value_at<std::uint64_t>(integers, row * 608 + column) !=
                 std::uint64_t{0x3a83126f} * static_cast<std::uint64_t>(times[row]);
      }
      for (std::size_t word = 576; word < 608; ++word)
        wrong += value_at<std::uint64_t>(integers, row * 608 + word) != 0;
      INFO(prefix << " row " << row << ", named " << times[row] << " times");
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the kernels of the limits multiply as much as is counted, and copy without a race") {
#ifdef SMLA_SANITIZED
  SKIP("sanitizers do not follow the emulator's switching of stacks");
#endif
  const OnCpu cpu;
  // With ones for operands an accumulator counts the products that went into it, and an element of the result
  // has half as many operations of its own again: a thread's sum over 64 x n x 16 products of two
  // accumulators.
  for (const char* name : {"wgmma_ss_n64", "wgmma_rs_n32"}) {
    const std::vector<char> out = cpu.run(name, false);
    double products = 0;
    for (std::size_t i = 0; i < 256; ++i) products += static_cast<double>(value_at<float>(out, i));
    CHECK(2 * products == kernel_named(cpu.kernels, name).amount * static_cast<double>(OnCpu::kTiles));
  }
  cpu.run("gather", false);
}

TEST_CASE(
    "the least time of a call is the longer of its memory's and its matrices', at the best rates measured") {
  const Problem problem = {.heads = 64};
  const Config config = {.schedule = Schedule::wgmma, .block_h = 64};
  const double tiles = 4096.0 * 2048 / 64;  // one token of 64 heads each
  // 256 tiles in 1.39648 ms are the 5.455 us of kernels.md; a random table that L2 does not hold is slower.
  const double step = 2.0 * 2 * 8 * 2 * 64 * 64 * 16;
  const double matrix_ms = step * 2000 * 132 / 900e12 * 1e3;  // at 900 TFLOPS
  std::vector<MeasuredLimit> limits = {
      measured("gather_reduce_fp32", 4096, 1.39648, 1.5), measured("gather_reduce_fp32", 65536, 3.0, 3.0),
      measured("reduce_fp32", 4096, 0.1, 0.1), measured("wgmma_ss_n64", 0, matrix_ms, 1.25 * matrix_ms),
      measured("wgmma_rs_n32", 0, 2 * matrix_ms, 2 * matrix_ms)};
  const auto least = least_time(problem, config, tiles, limits);
  REQUIRE(least);
  CHECK(least->cool.memory == smla_test::Approx(5.417).epsilon(1e-3));
  CHECK(least->steady.memory == smla_test::Approx(5.417 * 1.5 / 1.39648).epsilon(1e-3));
  CHECK(least->cool.matrices == smla_test::Approx(2.9549e12 / 900e12 * 1e3).epsilon(1e-3));
  CHECK(least->steady.matrices == smla_test::Approx(1.25 * least->cool.matrices));
  CHECK(least->cool.both() == least->cool.memory);

  // Fewer columns are fewer bytes; cp_async multiplies by another instruction; partial sums are other
  // reductions.
  CHECK(least_time({.heads = 64, .d_tail = 0}, config, tiles, limits)->cool.memory ==
        smla_test::Approx(least->cool.memory * 512 / 576));
  const auto without_wgmma = std::vector(limits.begin(), limits.begin() + 3);
  CHECK(least_time(problem, {.schedule = Schedule::cp_async, .block_h = 64}, tiles, limits)->cool.matrices ==
        0);
  CHECK(least_time(problem, {.schedule = Schedule::cp_async, .block_h = 64}, tiles, without_wgmma));
  CHECK_FALSE(least_time(problem, config, tiles, without_wgmma));
  Problem partial = problem, deterministic = problem;
  partial.accumulate = Accumulate::partial;
  deterministic.deterministic = true;
  CHECK_FALSE(least_time(partial, config, tiles, limits));
  limits.push_back(measured("gather_reduce_fp16", 4096, 1.4, 1.4));
  CHECK(least_time(partial, config, tiles, limits)->cool.memory ==
        smla_test::Approx(tiles / 132 * 1.4 / 512));
  // A pair's CTA reduces half of the columns in fp32: as many bytes.
  const Config pair = {.schedule = Schedule::wgmma_pair, .block_h = 64};
  CHECK(least_time({.heads = 128}, pair, tiles, limits)->cool.memory ==
        least_time(partial, config, tiles, limits)->cool.memory);
  limits.push_back(measured("gather_reduce_u64", 4096, 1.4, 1.4));
  CHECK(least_time(deterministic, config, tiles, limits)->cool.memory ==
        smla_test::Approx(tiles / 132 * 1.4 / 128));
}

TEST_CASE("the limits of this GPU are measured in rates that a GPU has", "[gpu]") {
  if (!driver_available()) SKIP("no GPU");
  const DeviceProperties device = device_properties(0);
  const CurrentDevice current(device.handle);
  const std::vector<MeasuredLimit> limits = measure_limits(device, {4096});
  CHECK(limits.size() == limit_kernels(arch_of_device(device.compute_major, device.compute_minor)).size());
  for (const MeasuredLimit& l : limits) {
    INFO(l.kernel.name << ": " << l.per_sm(l.timing.cool) << " a second and SM");
    CHECK(l.timing.cool > 0.05);
    CHECK(l.timing.cool < 50);
    CHECK(l.timing.steady < 4 * l.timing.cool);
  }
}
