#include "device_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "compiler/compiler.h"
#include "device_limits_text.h"
#include "driver/library.h"
#include "driver/memory.h"
#include "driver/stream.h"
#include "generator/templates.h"
#include "reference/half.h"
#include "reference/random.h"

namespace smla::core {
namespace {

// As in device_limits.cuh.
struct LimitsArguments {
  void* sums;
  const void* kv;
  const void* list;
  const void* operands;
  void* out;
  int tiles;
};

constexpr int kTileRows = 64, kColumns = 576;
constexpr int kReduceThreads = 256, kGatherThreads = 128, kMatrixThreads = 256;
constexpr int kOperandBytes = 128 * 1024;
constexpr int kBuffers = 2 * kTileRows * kColumns * 2;

constexpr int kFp32Row = kColumns * 4, kHalfRow = kColumns * 2, kIntegerRow = (kColumns + 32) * 8;
constexpr double kFp32Tile = kTileRows * kColumns * 4.0, kHalfTile = kTileRows * kColumns * 2.0,
                 kIntegerTile = kTileRows * kColumns * 8.0;

// A step of the matrix kernels: two warpgroups, two runs of eight wgmmas of 64 x n x 16.
constexpr double step_flops(int n) {
  return 2.0 * 2 * 8 * (2.0 * 64 * n * 16);
}

// Tiles so that a launch takes about 1.3 ms of an H200: long beside its start and its end.
const LimitKernel kReduceFp32 = {.name = "reduce_fp32",
                                 .description = "red.v4.f32, 4 rows x 128 B",
                                 .call = "reduce<Fp32Sums>",
                                 .threads = kReduceThreads,
                                 .row_bytes = kFp32Row,
                                 .tiles = 256,
                                 .amount = kFp32Tile};
const LimitKernel kReduceFp16 = {.name = "reduce_fp16",
                                 .description = "red.v4.f16x2, 8 rows x 64 B",
                                 .call = "reduce<Fp16Sums>",
                                 .threads = kReduceThreads,
                                 .row_bytes = kHalfRow,
                                 .tiles = 512,
                                 .amount = kHalfTile};
const LimitKernel kReduceIntegers = {.name = "reduce_u64",
                                     .description = "red.u64, 2 rows x 128 B",
                                     .call = "reduce<IntegerSums>",
                                     .threads = kReduceThreads,
                                     .row_bytes = kIntegerRow,
                                     .tiles = 128,
                                     .amount = kIntegerTile};
const LimitKernel kGather = {.name = "gather",
                             .description = "gather, cp.async 16 B",
                             .call = "gather",
                             .threads = kGatherThreads,
                             .shared_bytes = kBuffers,
                             .row_bytes = kHalfRow,
                             .tiles = 512,
                             .amount = kHalfTile};
const LimitKernel kMatricesSs = {.name = "wgmma_ss_n64",
                                 .description = "wgmma n64, both from shared memory",
                                 .call = "matrices_ss",
                                 .threads = kMatrixThreads,
                                 .shared_bytes = kOperandBytes,
                                 .tiles = 2000,
                                 .amount = step_flops(64)};
const LimitKernel kMatricesRs = {.name = "wgmma_rs_n32",
                                 .description = "wgmma n32, A from registers",
                                 .call = "matrices_rs",
                                 .threads = kMatrixThreads,
                                 .shared_bytes = kOperandBytes,
                                 .tiles = 4000,
                                 .amount = step_flops(32)};

LimitKernel with_gather(LimitKernel kernel, std::string_view name, std::string_view description,
                        std::string_view call) {
  kernel.name = name;
  kernel.description = description;
  kernel.call = call;
  kernel.threads = kReduceThreads + kGatherThreads;
  kernel.shared_bytes = kBuffers;
  return kernel;
}

std::string symbol(const LimitKernel& kernel) {
  return fmt::format("smla_limit_{}", kernel.name);
}

// Never zeros, for which a GPU clocks higher.
std::vector<std::uint16_t> random_operands(std::size_t count) {
  std::vector<std::uint16_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = to_operand(DType::bf16, random_normal(1, i));
  return values;
}

DeviceBuffer uploaded(const void* data, std::size_t bytes, cuda::Stream stream) {
  DeviceBuffer buffer(bytes);
  copy_to_device(buffer.data(), data, bytes, stream);
  return buffer;
}

// kv, and the sums of every kind, of a table of so many rows, with lists that name them at random.
struct Table {
  DeviceBuffer kv, sums, list;

  Table(std::int64_t rows, int most_row_bytes, std::size_t entries, cuda::Stream stream)
      : sums(static_cast<std::size_t>(rows) * static_cast<std::size_t>(most_row_bytes)) {
    std::vector<std::uint64_t> bits(static_cast<std::size_t>(rows) * kHalfRow /
                                    8);  // copied, never computed with
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = random_bits(1, i);
    kv = uploaded(bits.data(), bits.size() * 8, stream);
    std::vector<std::int32_t> names(entries);
    for (std::size_t i = 0; i < entries; ++i) names[i] = static_cast<std::int32_t>(random_below(2, i, rows));
    list = uploaded(names.data(), entries * 4, stream);
  }
};

}  // namespace

std::vector<LimitKernel> limit_kernels(const Arch& arch) {
  std::vector<LimitKernel> kernels;
  if (has_vector_reductions(arch)) kernels = {kReduceFp32, kReduceFp16};
  kernels.push_back(kReduceIntegers);
  kernels.push_back(kGather);
  if (has_vector_reductions(arch)) {
    kernels.push_back(with_gather(kReduceFp32, "gather_reduce_fp32", "gather and red.v4.f32",
                                  "gather_and_reduce<Fp32Sums>"));
    kernels.push_back(with_gather(kReduceFp16, "gather_reduce_fp16", "gather and red.v4.f16x2",
                                  "gather_and_reduce<Fp16Sums>"));
  }
  kernels.push_back(with_gather(kReduceIntegers, "gather_reduce_u64", "gather and red.u64",
                                "gather_and_reduce<IntegerSums>"));
  if (has_wgmma(arch)) {
    kernels.push_back(kMatricesSs);
    kernels.push_back(kMatricesRs);
  }
  // CTAs of other archs have less shared memory than two tiles.
  std::erase_if(kernels, [&](const LimitKernel& k) { return k.shared_bytes > shared_memory_limit(arch); });
  return kernels;
}

KernelSource limits_source(const Arch& arch) {
  KernelSource source;
  source.name = "limits";
  std::string entries;
  for (const LimitKernel& k : limit_kernels(arch)) {
    entries += fmt::format("PTX_KERNEL({}, 1) {}(PTX_PARAMETER LimitsArguments args) {{ {}(args); }}\n",
                           k.threads, symbol(k), k.call);
  }
  source.parts = {{"constants", "struct Spec {\n  static constexpr bool is_bf16 = true;\n};\n\n"},
                  template_part("ptx.cuh"),
                  template_part("panels.cuh"),
                  template_part("operand_wgmma.cuh"),
                  {"device_limits.cuh", kDeviceLimitsText},
                  {"entries", entries}};
  return source;
}

std::vector<MeasuredLimit> measure_limits(const DeviceProperties& device,
                                          const std::vector<std::int64_t>& tables) {
  const Arch arch = arch_of_device(device.compute_major, device.compute_minor);
  const std::vector<LimitKernel> kernels = limit_kernels(arch);
  const KernelSource source = limits_source(arch);
  const Cubin cubin = compile(source, arch);
  const LoadedLibrary library(cubin.image, source.name);
  const Stream stream;

  const std::vector<std::uint16_t> operands = random_operands(kOperandBytes / 2);
  const DeviceBuffer device_operands = uploaded(operands.data(), kOperandBytes, stream.handle());
  const auto sms = static_cast<std::size_t>(device.multiprocessors);
  const DeviceBuffer out(sms * kMatrixThreads * sizeof(float));

  std::vector<MeasuredLimit> limits;
  const auto measure_kernel = [&](const LimitKernel& k, std::int64_t rows, const Table* table,
                                  const TimingOptions& options) {
    if (table) fill(table->sums.data(), 0, table->sums.bytes(), stream.handle());
    const std::string name = symbol(k);
    const Launchable launchable = {library.kernel(name)};
    make_ready(launchable.kernel, name, k.shared_bytes, device.handle);
    const LimitsArguments arguments = {table ? table->sums.data() : nullptr,
                                       table ? table->kv.data() : nullptr,
                                       table ? table->list.data() : nullptr,
                                       device_operands.data(),
                                       out.data(),
                                       k.tiles};
    const auto enqueue = [&] {
      launch(launchable, name.c_str(), static_cast<unsigned>(device.multiprocessors),
             static_cast<unsigned>(k.threads), static_cast<unsigned>(k.shared_bytes), stream.handle(),
             &arguments);
    };
    enqueue();
    const auto measured = [&](const std::function<void()>& mark) {
      enqueue();
      mark();
    };
    limits.push_back(
        {k, rows, device.multiprocessors, measure(stream.handle(), 1, measured, options).front()});
  };

  int most_row_bytes = 0, most_tiles = 0;
  for (const LimitKernel& k : kernels) {
    if (k.row_bytes == 0) continue;
    most_row_bytes = std::max(most_row_bytes, k.row_bytes);
    most_tiles = std::max(most_tiles, k.tiles);
  }
  for (const std::int64_t rows : tables) {
    const Table table(rows, most_row_bytes, sms * static_cast<std::size_t>(most_tiles) * kTileRows,
                      stream.handle());
    for (const LimitKernel& k : kernels) {
      if (k.row_bytes > 0)
        measure_kernel(k, rows, &table, {.rest_seconds = 0.2, .load_seconds = 0.4, .first = 10, .last = 25});
    }
  }
  for (const LimitKernel& k : kernels) {  // these are what the power limit slows
    if (k.row_bytes == 0)
      measure_kernel(k, 0, nullptr, {.rest_seconds = 0.5, .load_seconds = 1, .first = 10, .last = 25});
  }
  return limits;
}

std::optional<LeastTime> least_time(const Problem& problem, const Config& config, double tiles,
                                    const std::vector<MeasuredLimit>& limits) {
  const std::string_view together =
      problem.deterministic ? "gather_reduce_u64"
      : problem.accumulate == Accumulate::partial || cluster_ctas(config) == 2
          ? "gather_reduce_fp16"  // a pair's CTA: half the columns in fp32, the same bytes
          : "gather_reduce_fp32";
  const bool wgmma = uses_wgmma(config.schedule);
  const double tile_flops = 2.0 * 64 * kTileRows * (3.0 * problem.d_qk() + 2.0 * problem.d_v);
  LeastTime least;
  bool has_memory = false, has_matrices = false;
  for (const MeasuredLimit& limit : limits) {
    const auto keep_fastest = [](double& kept, bool seen, double time) {
      kept = seen ? std::min(kept, time) : time;
    };
    const double tiles_an_sm = tiles / limit.multiprocessors;
    if (limit.kernel.name == together) {
      const auto time = [&](double ms) {
        return tiles_an_sm * limit.tile_microseconds(ms) * 1e-3 * problem.d_qk() / kColumns;
      };
      keep_fastest(least.cool.memory, has_memory, time(limit.timing.cool));
      keep_fastest(least.steady.memory, has_memory, time(limit.timing.steady));
      has_memory = true;
    } else if (wgmma && limit.kernel.row_bytes == 0) {
      const auto time = [&](double ms) { return tiles_an_sm * tile_flops / limit.per_sm(ms) * 1e3; };
      keep_fastest(least.cool.matrices, has_matrices, time(limit.timing.cool));
      keep_fastest(least.steady.matrices, has_matrices, time(limit.timing.steady));
      has_matrices = true;
    }
  }
  if (!has_memory || has_matrices != wgmma) return std::nullopt;
  return least;
}

}  // namespace smla::core
