#include "config/cp_async.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace smla::core {
namespace {

constexpr int kLargestBlockH = 64;   // d_q of 64 heads is all that the registers of 256 threads hold
constexpr int kSmallestBlockH = 16;  // the M of mma.m16n8k16
constexpr int kDefaultBlockSize = 32;
constexpr int kSmallestBlockSize = 16;  // the K of mma.m16n8k16
constexpr int kDefaultStages = 2;

// The kernel is bound by copies in flight, and smaller head blocks have too little matrix work for 8 warps
// (TileLang, "Add adaptive thread selection to sparse MLA backward": 53 -> 178 TFLOPS at 64 heads on an
// H200).
int default_threads(int block_h) {
  return block_h >= 64 ? 256 : 128;
}

void check_forced_values(const ConfigRequest& request) {
  const auto one_of = [](int value, std::initializer_list<int> values) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  if (request.block_h && !one_of(*request.block_h, {16, 32, 64})) {
    fail(Status::not_supported,
         "block_h = {} (config.block_h): cp_async takes 16, 32 or 64; the nearest that works is {}",
         *request.block_h,
         *request.block_h < 24   ? 16
         : *request.block_h < 48 ? 32
                                 : 64);
  }
  if (request.block_size && !one_of(*request.block_size, {16, 32, 64})) {
    fail(Status::not_supported,
         "block_size = {} (config.block_size): cp_async takes 16, 32 or 64 kv rows a step; the nearest that "
         "works is {}",
         *request.block_size,
         *request.block_size < 24   ? 16
         : *request.block_size < 48 ? 32
                                    : 64);
  }
  if (request.stages && (*request.stages < 0 || *request.stages > 8)) {
    fail(Status::not_supported,
         "stages = {} (config.stages): cp_async takes 1 to 8 buffers (0 means 1); the nearest that works is "
         "{}",
         *request.stages, *request.stages < 0 ? 1 : 8);
  }
  if (request.threads && !one_of(*request.threads, {128, 256})) {
    fail(Status::not_supported,
         "threads = {} (config.threads): cp_async takes 128 or 256; the nearest that works is {}",
         *request.threads, *request.threads < 192 ? 128 : 256);
  }
}

}  // namespace

int cp_async_shared_bytes(const Problem& problem, const Config& config) {
  const int heads_block = config.block_h * (problem.d_qk() + problem.d_v);
  const int kv_tiles = config.stages * config.block_size * problem.d_qk();
  const int p_and_ds = 2 * config.block_h * config.block_size;
  return 2 * (heads_block + kv_tiles + p_and_ds);
}

Choice choose_cp_async(const Problem& problem, const Arch& arch, const ConfigRequest& request) {
  if (problem.accumulate == Accumulate::partial) {
    fail(Status::not_supported,
         "accumulate = partial needs the schedule wgmma on sm_90a, and this is cp_async for {} "
         "(problem.accumulate); the "
         "nearest that works is accumulate = fp32",
         name(arch));
  }
  check_forced_values(request);
  const int budget = shared_memory_limit(arch);
  const int padded_h = std::max(
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(problem.heads_per_group()))), kSmallestBlockH);
  const int wanted_block_h = request.block_h.value_or(std::min(kLargestBlockH, padded_h));

  // Largest first; what does not fit gives up stages, then block_size, then block_h.
  Config config{.schedule = Schedule::cp_async, .vector_reductions = has_vector_reductions(arch)};
  const auto fits = [&](int block_h, int block_size, int stages) {
    config.block_h = block_h;
    config.block_size = block_size;
    config.stages = stages;
    return cp_async_shared_bytes(problem, config) <= budget;
  };
  const auto search = [&] {
    const int smallest_h = request.block_h ? wanted_block_h : kSmallestBlockH;
    for (int block_h = wanted_block_h; block_h >= smallest_h; block_h /= 2) {
      const int largest_size = request.block_size.value_or(kDefaultBlockSize);
      const int smallest_size = request.block_size.value_or(kSmallestBlockSize);
      for (int block_size = largest_size; block_size >= smallest_size; block_size /= 2) {
        const int most_stages = std::max(1, request.stages.value_or(kDefaultStages));
        const int fewest_stages = request.stages ? most_stages : 1;
        for (int stages = most_stages; stages >= fewest_stages; --stages) {
          if (fits(block_h, block_size, stages)) return true;
        }
      }
    }
    return false;
  };
  if (!search()) {
    const int bytes = cp_async_shared_bytes(problem, config);
    ConfigRequest free_request{.schedule = Schedule::cp_async};
    if (request == ConfigRequest{.schedule = request.schedule}) {
      fail(Status::not_supported, "cp_async needs at least {} bytes of shared memory and {} has {} a CTA",
           bytes, name(arch), budget);
    }
    const Config nearest = choose_cp_async(problem, arch, free_request).config;
    fail(
        Status::not_supported,
        "block_h / block_size / stages as forced need at least {} bytes of shared memory and {} has {} a CTA "
        "(config.block_h, block_size, stages); the nearest that works is {} / {} / {}",
        bytes, name(arch), budget, nearest.block_h, nearest.block_size, nearest.stages);
  }

  config.threads = request.threads.value_or(default_threads(config.block_h));
  if (config.block_h == 64 && config.threads == 128) {
    fail(Status::not_supported,
         "threads = 128 with block_h = 64 (config.threads): d_q alone would hold {} accumulators a thread, "
         "and a thread "
         "has 255 registers; the nearest that works is 256",
         64 * problem.d_qk() / 128);
  }

  Choice choice{.config = config, .why = {}};
  const auto why = [&]<class... Args>(fmt::format_string<Args...> sentence, Args&&... args) {
    choice.why.push_back(fmt::format(sentence, std::forward<Args>(args)...));
  };
  if (request.block_h) {
    why("block_h = {}: forced", config.block_h);
  } else if (config.block_h < wanted_block_h) {
    why("block_h = {}: {} heads a block do not fit the {} bytes of shared memory of {}", config.block_h,
        wanted_block_h, budget, name(arch));
  } else {
    why("block_h = {}: min(64, max(next_power_of_2({}), 16)), {} block(s) a kv group", config.block_h,
        problem.heads_per_group(), head_blocks(problem, config));
  }
  if (request.block_size) {
    why("block_size = {}: forced", config.block_size);
  } else if (config.block_size < kDefaultBlockSize) {
    why("block_size = {}: {} kv rows a step do not fit the shared memory", config.block_size,
        kDefaultBlockSize);
  } else {
    why("block_size = {}: the seed's", config.block_size);
  }
  if (request.stages) {
    why("stages = {}: forced{}", config.stages, *request.stages == 0 ? " (the seed's 0 means 1)" : "");
  } else if (config.stages < kDefaultStages) {
    why("stages = {}: {} buffers do not fit the shared memory", config.stages, kDefaultStages);
  } else {
    why("stages = {}: as many buffers as fit, up to {}", config.stages, kDefaultStages);
  }
  if (request.threads) {
    why("threads = {}: forced", config.threads);
  } else {
    why("threads = {}: block_h {} 64; the kernel is bound by copies in flight, and smaller head blocks have "
        "too little "
        "matrix work for 8 warps",
        config.threads, config.block_h >= 64 ? ">=" : "<");
  }
  why("shared memory = {} of {} bytes", cp_async_shared_bytes(problem, config), budget);
  if (problem.deterministic) {
    why("d_kv is summed in integers by red.add.u64");
  } else {
    why("d_kv is summed by red.add.{}f32", config.vector_reductions ? "v4." : "");
  }
  return choice;
}

}  // namespace smla::core
