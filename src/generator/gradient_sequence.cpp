#include "generator/gradient_sequence.h"

#include <fmt/format.h>

#include <vector>

#include "generator/sequence_text.h"

namespace smla::core {
namespace {

constexpr int kScorePanels = 3;            // the top 64-column panels, which the score warpgroup reduces
constexpr int kWgmmasBeforeReduction = 4;  // issued ahead of each of a chunk's four reductions

// Integer sums need the registers of P^T and dS^T for the rows' words and the conversions: their products
// read both from shared memory, which is free then only when the last of them is done.
bool from_shared(const Problem& problem) {
  return problem.deterministic;
}

// d_kv of one chunk: dS^T q and, in the value columns, + P^T d_o.
std::vector<std::string> chunk_wgmmas(const Problem& problem, int chunk) {
  std::vector<std::string> calls;
  const int column = chunk * kChunk;
  const auto product = [&](const char* left, const char* right, int k, bool adds) {
    calls.push_back(from_shared(problem)
                        ? fmt::format("wgmma_n32_ss<1, 1>({}, {}_columns({}), {}_columns({}, {}), {});",
                                      accumulator_of(chunk), left, k, right, column, k, adds ? 1 : 0)
                        : fmt::format("wgmma_n32_rs<1>({}, {}[{}], {}_columns({}, {}), {});",
                                      accumulator_of(chunk), left, k, right, column, k, adds ? 1 : 0));
  };
  for (int k = 0; k < 4; ++k) product("ds", "q", k, k > 0);
  if (column < problem.d_v) {
    for (int k = 0; k < 4; ++k) product("p", "d_o", k, true);
  }
  calls.back() += "\nwgmma_commit_group();";
  return calls;
}

// The gradient warpgroup's columns of d_q: with a tail 288 .. 319 and 320 .. 575, else 256 .. 511.
std::vector<std::string> d_q_wgmmas(const Problem& problem) {
  std::vector<std::string> calls;
  for (int k = 0; k < 4; ++k) {
    calls.push_back(fmt::format("wgmma_n256_ss<0, 1>(d_q, ds_rows({}), kv_columns({}, {}), 1);", k,
                                problem.d_tail ? 320 : 256, k));
    if (problem.d_tail) {
      calls.push_back(
          fmt::format("wgmma_n32_ss<0, 1>(d_q_first, ds_rows({}), kv_columns(288, {}), 1);", k, k));
    }
  }
  calls.back() += "\nwgmma_commit_group();";
  return calls;
}

}  // namespace

std::string gradient_sequence(const Problem& problem) {
  const int chunks = problem.d_qk() / kChunk - 2 * kScorePanels;
  SequenceLines lines;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (chunk == 0) {
      lines.add(fmt::format("// Chunk 0: columns 0 .. {}.", kChunk - 1));
      lines.add("wgmma_fence();");
      for (const auto& call : chunk_wgmmas(problem, 0)) lines.add(call);
      lines.add("wgmma_wait_group<0>();");
      lines.blank();
    }
    std::vector<std::string> between;
    if (chunk == 0) between = d_q_wgmmas(problem);
    if (chunk + 1 < chunks) {
      for (auto& call : chunk_wgmmas(problem, chunk + 1)) between.push_back(std::move(call));
      const int column = (chunk + 1) * kChunk;
      lines.add(fmt::format("// Chunk {} leaves; {}chunk {}, columns {} .. {}, between its reductions.",
                            chunk, chunk == 0 ? "d_q and " : "", chunk + 1, column, column + kChunk - 1));
      lines.add("wgmma_fence();");
    } else {
      if (from_shared(problem)) lines.add("if (more_tiles) bar_arrive(P_FREE, 256);");
      lines.add(fmt::format("// Chunk {} leaves.", chunk));
    }
    const std::string_view d = accumulator_of(chunk);
    const int step =
        problem.accumulate == Accumulate::partial ? 2 : 1;  // half the bytes, half the reductions
    if (step == 1) lines.add(fmt::format("exchange_halves<0>({}, rows, other);", d));
    std::size_t next = 0;
    for (int part = 0; part < 4; part += step) {
      for (int i = 0; i < kWgmmasBeforeReduction * step && next < between.size(); ++i)
        lines.add(between[next++]);
      lines.add(fmt::format("reduce_row<0, {}>({}, rows, other, {});", part, d, chunk * kChunk));
    }
    if (chunk == 0) {
      lines.add(fmt::format("wgmma_wait_group<1>();  // d_q's are done: kv{} been read",
                            from_shared(problem) ? " has" : ", P and dS have"));
      lines.add(
          "if (first_lane) {\n  mbarrier_arrive(Shared::empty + 8);\n  mbarrier_arrive(Shared::empty + "
          "16);\n}");
      if (!from_shared(problem)) lines.add("if (more_tiles) bar_arrive(P_FREE, 256);");
    }
    if (chunk + 1 < chunks) {
      lines.add("wgmma_wait_group<0>();");
      lines.blank();
    }
  }
  return fmt::format(
      R"(// One tile of the gradient warpgroup, written out by the generator: d_q's columns from {} on, and d_kv's columns
// 0 .. {} in chunks of {}, two accumulators in turn.
PTX_FN void gradient_tile(float (&d_q)[128], float (&d_q_first)[16], const u32 (&p)[4][4], const u32 (&ds)[4][4],
                          const ReductionRows& rows, bool first_lane, bool more_tiles) {{
  float even[16], odd[16];  // d_kv of the even and the odd chunks
  Exchanged other;          // with neighbouring lanes

{}}}
)",
      problem.d_tail ? 288 : 256, chunks * kChunk - 1, kChunk, lines.text());
}

}  // namespace smla::core
