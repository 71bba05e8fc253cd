#include "generator/generator.h"

#include <fmt/format.h>

#include "generator/gradient_sequence.h"
#include "generator/pair_sequence.h"

namespace smla::core {
namespace {

std::string_view text_of(bool value) {
  return value ? "true" : "false";
}

// The symbol of a kernel says what it is specialised for: profilers show nothing else.
std::string symbol(std::string_view role, const Problem& problem, const Config& config) {
  std::string text = fmt::format("smla_{}_{}_{}", role, canonical_name(problem), canonical_name(config));
  for (char& c : text) {
    if (c == '-') c = '_';
  }
  return text;
}

std::string describe(const Problem& p) {
  std::string text = fmt::format("{} heads in {} kv group(s), {} + {} columns, {}", p.heads, p.kv_groups,
                                 p.d_v, p.d_tail, name(p.dtype));
  if (p.causal) text += ", causal";
  if (p.has_topk_length) text += ", topk_length";
  if (p.has_sink) text += ", attn_sink";
  if (p.has_delta) text += ", delta given";
  if (p.deterministic) text += ", deterministic";
  if (p.accumulate == Accumulate::partial) text += ", partial sums";
  return text + fmt::format(", lse to base {}{}, d_kv as {}", name(p.lse_base),
                            p.lse_includes_sink ? " with the sink in it" : "",
                            p.d_kv_type == DkvType::fp32 ? "fp32" : name(p.dtype));
}

std::string banner(const Problem& problem, const Config& config) {
  const std::string_view arch = uses_wgmma(config.schedule) ? "sm_90a"
                                : config.vector_reductions  ? "sm_90"
                                                            : "sm_80";
  const bool partial = problem.accumulate == Accumulate::partial;
  return fmt::format(
      R"(// Sparse-MLA backward: {}.
// Schedule {}: {} head(s) of {} token(s) a CTA{}, {} kv rows a step, {} stage(s), {} threads.
//
// Written by smla; a whole translation unit that needs no header:
//
//   nvcc -std=c++17 -cubin -arch={} this_file.cu
//
// A call launches, on one stream: preprocess (delta, denominators, list lengths, zeroing),
// {}sort_lists (long contexts, and blocks of several tokens; not for lists
// that the caller kept), backward (d_q, and d_kv into {}),
// postprocess (d_kv, d_sink{}).
// All take one Arguments by value. Read from the end: the entries, then `backward`, then the roles it calls.{}

)",
      describe(problem), name(config.schedule), config.block_h, block_tokens(config),
      cluster_ctas(config) == 1 ? "" : ", two CTAs a cluster", config.block_size, config.stages,
      config.threads, arch,
      problem.deterministic ? "row_scales (bits before the point), "
      : partial             ? "group_scales (a power of two for P), "
                            : "",
      problem.deterministic ? "64-bit integer sums"
      : partial             ? "fp16 sums of groups of tokens"
                            : "fp32 sums",
      uses_wgmma(config.schedule) && !problem.deterministic ? ", d_q of lists that CTAs share" : "",
      partial ? "\n// What fp16 cannot hold is computed again by the kernels of the same problem with fp32 "
                "sums,\n// a text of their own."
              : "");
}

std::string constants(const Problem& p, const Config& c) {
  return fmt::format(
      R"(// What this text is specialised for. Lengths, strides and the softmax scale are arguments.
struct Spec {{
  static constexpr int heads = {};
  static constexpr int kv_groups = {};
  static constexpr int heads_per_group = {};
  static constexpr int d_v = {};
  static constexpr int d_tail = {};
  static constexpr int d_qk = {};
  static constexpr bool is_bf16 = {};  // else fp16
  static constexpr bool causal = {};
  static constexpr bool has_topk_length = {};
  static constexpr bool has_sink = {};
  static constexpr bool has_delta = {};
  static constexpr bool lse_is_base_e = {};  // else log2
  static constexpr bool lse_includes_sink = {};
  static constexpr bool d_kv_is_fp32 = {};  // else the operand type
  static constexpr bool deterministic = {};  // d_kv is summed in integers, which may be added in any order
  static constexpr int sum_row_bytes = {};  // of d_kv's sums

  static constexpr int block_h = {};  // heads of a token in a CTA
  static constexpr int block_tokens = {};  // neighbouring query tokens a CTA
  static constexpr int head_blocks = {};  // of a kv group
  static constexpr int block_size = {};  // kv rows a step
  static constexpr int stages = {};  // buffers of kv rows
  static constexpr int cluster_ctas = {};  // CTAs that run as a cluster
  static constexpr int threads = {};
  static constexpr int shared_bytes = {};  // dynamic shared memory of backward
  static constexpr bool vector_reductions = {};  // 16-byte reductions
  static constexpr bool delta_in_backward = {};  // else preprocess computes it, or copies the caller's
}};

)",
      p.heads, p.kv_groups, p.heads_per_group(), p.d_v, p.d_tail, p.d_qk(), text_of(p.dtype == DType::bf16),
      text_of(p.causal), text_of(p.has_topk_length), text_of(p.has_sink), text_of(p.has_delta),
      text_of(p.lse_base == LseBase::e), text_of(p.lse_includes_sink), text_of(p.d_kv_type == DkvType::fp32),
      text_of(p.deterministic), sum_row_bytes(p), c.block_h, block_tokens(c), head_blocks(p, c), c.block_size,
      c.stages, cluster_ctas(c), c.threads, shared_memory_bytes(p, c), text_of(c.vector_reductions),
      text_of(uses_wgmma(c.schedule) && !p.has_delta && !p.deterministic));
}

std::string entry(const KernelFacts& kernel, std::string_view function, int cluster, int ctas_an_sm) {
  const std::string bounds =
      cluster == 1 ? fmt::format("PTX_KERNEL({}, {})", kernel.threads, ctas_an_sm)
                   : fmt::format("PTX_KERNEL_CLUSTER({}, {}, {})", cluster, kernel.threads, ctas_an_sm);
  return fmt::format("{} {}(PTX_PARAMETER Arguments args) {{ {}(args); }}\n", bounds, kernel.name, function);
}

}  // namespace

int sum_row_bytes(const Problem& problem) {
  if (problem.accumulate == Accumulate::partial) return problem.d_qk() * 2;
  return problem.deterministic ? (problem.d_qk() + 32) * 8 : problem.d_qk() * 4;
}

long long sort_shared_bytes(long long keys, const Config& config) {
  constexpr long long kRunsAndSums = 256 * 4 + 32 + 16;
  return block_tokens(config) * ((keys + 31) / 32 * 4) + kRunsAndSums;
}

KernelSource generate(const Problem& problem, const Config& config) {
  const bool pair = config.schedule == Schedule::wgmma_pair;
  const std::string blocks =
      block_tokens(config) == 1 ? "S" : fmt::format("ceil(S / {})", block_tokens(config));
  const bool fixed = problem.deterministic, partial = problem.accumulate == Accumulate::partial;
  KernelSource source;
  source.name = canonical_name(problem) + "-" + canonical_name(config);
  std::string entries = "// ======== entries ========\n";
  const auto add_kernel = [&](KernelRole role, std::string_view function, std::string grid, int threads,
                              int shared_bytes, int ctas_an_sm) {
    source.kernels.push_back(
        {role, symbol(function, problem, config), std::move(grid), threads, shared_bytes});
    const int cluster = role == KernelRole::backward ? cluster_ctas(config) : 1;
    entries += entry(source.kernels.back(), function, cluster, ctas_an_sm);
  };
  add_kernel(KernelRole::preprocess, "preprocess", "B * S * kv_groups lists, at least enough to zero", 256, 0,
             3);
  if (problem.deterministic) {
    add_kernel(KernelRole::row_scales, "row_scales", "B * kv_groups times up to 264 shares of their rows",
               256, 0, 4);
  }
  if (partial)
    add_kernel(KernelRole::group_scales, "group_scales", "B * kv_groups * groups of tokens", 256, 0, 4);
  add_kernel(KernelRole::sort_lists, "sort_lists", fmt::format("B * {} * kv_groups", blocks), 256, 0, 4);
  add_kernel(
      KernelRole::backward, "backward",
      fmt::format(
          "B * {} * kv_groups * {}{}", blocks, head_blocks(problem, config),
          uses_wgmma(config.schedule) && !fixed ? " blocks, several CTAs for each of the last ones" : ""),
      config.threads, shared_memory_bytes(problem, config), 1);
  add_kernel(KernelRole::postprocess, "postprocess", "B * S_kv * kv_groups rows, 2112 at most", 256, 0, 4);

  source.parts.push_back({"banner", banner(problem, config)});
  source.parts.push_back({"constants", constants(problem, config)});
  const auto add_templates = [&](std::initializer_list<const char*> files) {
    for (const char* file : files) source.parts.push_back(template_part(file));
  };
  add_templates({"ptx.cuh", "arguments.cuh", "fallback.cuh", "operand.cuh", "lists.cuh"});
  if (partial) {
    add_templates({"magnitudes.cuh", "partial_sums.cuh"});
  } else if (fixed) {
    add_templates({"unscaled.cuh", "magnitudes.cuh", "fixed_point.cuh"});
  } else {
    add_templates({"unscaled.cuh", "columns.cuh"});
  }
  add_templates({"panels.cuh", "preprocess.cuh", "sort_lists.cuh"});
  if (fixed) add_templates({"row_scales.cuh"});
  if (partial) add_templates({"group_scales.cuh"});
  if (uses_wgmma(config.schedule)) {
    add_templates({"operand_wgmma.cuh", "wgmma_layout.cuh", pair ? "wgmma_exchange.cuh" : "wgmma_alone.cuh",
                   "wgmma_shares.cuh",
                   fixed     ? "wgmma_fixed_point.cuh"
                   : partial ? "wgmma_partial_sums.cuh"
                             : "wgmma_reductions.cuh",
                   "wgmma_out.cuh"});
    if (pair) add_templates({"wgmma_in_place.cuh"});
    const auto add_sequence = [&](const std::string& name, const std::string& text) {
      source.parts.push_back({name, "// ======== " + name + " ========\n" + text + "\n"});
    };
    if (pair) {
      add_sequence("pair sequence", pair_sequence(problem));
    } else {
      add_sequence("gradient sequence", gradient_sequence(problem));
    }
    add_templates({"wgmma_gather.cuh", "wgmma_delta.cuh", "wgmma_scores.cuh",
                   pair ? "backward_wgmma_pair.cuh" : "backward_wgmma.cuh"});
  } else {
    add_templates({"operand_mma.cuh", "backward_cp_async.cuh"});
  }
  add_templates({"postprocess.cuh"});
  source.parts.push_back({"entries", entries});
  return source;
}

}  // namespace smla::core
