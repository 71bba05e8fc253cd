#include "generator/pair_sequence.h"

#include <fmt/format.h>

#include <vector>

#include "generator/sequence_text.h"

namespace smla::core {
namespace {

constexpr int kPanel = 64;                 // columns; a chunk is one CTA's half of a panel
constexpr int kWgmmasBeforeReduction = 2;  // issued ahead of each of a chunk's four reductions
constexpr int kScoreOwns = 1;              // own chunks, the last ones, that the score warpgroup reduces
constexpr int kReceiveBefore = 0;  // of the four: what came for the next chunk is loaded ahead of this one,
constexpr int kFreeBehind = 2;     // and its place given back behind this one

int chunks_of(const Problem& problem) {
  return problem.d_qk() / kPanel;
}

// d_kv of one half of a panel: dS^T q and, in the value columns, + P^T d_o.
std::vector<std::string> chunk_wgmmas(const Problem& problem, int chunk, std::string_view owner,
                                      std::string_view accumulator) {
  std::vector<std::string> calls;
  for (int k = 0; k < 4; ++k) {
    calls.push_back(fmt::format("wgmma_n32_rs<1>({}, ds[{}], q_half({}, {}, {}), {});", accumulator, k, chunk,
                                owner, k, k > 0 ? 1 : 0));
  }
  for (int k = 0; k < 4 && chunk * kPanel < problem.d_v; ++k) {
    calls.push_back(
        fmt::format("wgmma_n32_rs<1>({}, p[{}], d_o_half({}, {}, {}), 1);", accumulator, k, chunk, owner, k));
  }
  calls.back() += "\nwgmma_commit_group();";
  return calls;
}

// d_q's 288 (with a tail) or 256 columns from `column` on; `part` of 32 columns from `part_column` on beside
// them.
void add_d_q(SequenceLines& lines, const Problem& problem, int column, std::string_view part,
             int part_column) {
  lines.add("wgmma_fence();");
  for (int k = 0; k < 4; ++k) {
    lines.add(fmt::format("wgmma_n256_rs<1>(d_q, ds_of_heads[{}], kv_columns({}, {}), 1);", k, column, k));
    if (problem.d_tail) {
      lines.add(fmt::format("wgmma_n32_rs<1>({}, ds_of_heads[{}], kv_columns({}, {}), 1);", part, k,
                            part_column, k));
    }
  }
  lines.add("wgmma_commit_group();");
}

void add_wgmmas(SequenceLines& lines, const std::vector<std::string>& calls) {
  lines.add("wgmma_fence();");
  for (const auto& call : calls) lines.add(call);
}

// A chunk on its way: multiplied, then sent to the peer or, with what the peer sends, reduced.
struct Step {
  int chunk;
  bool sends;
};

std::vector<std::string> step_wgmmas(const Problem& problem, const Step& step, std::size_t number) {
  return chunk_wgmmas(problem, step.chunk, step.sends ? "peer" : "rank",
                      accumulator_of(static_cast<int>(number)));
}

std::string receive(int chunk) {
  return fmt::format("receive_chunk<{}>(received, tile, thread);", chunk);
}

// Steps from `first` on, whose products are done; those of each following step are issued while one leaves.
// `all_taken`: said when nothing more will be received.
void add_steps(SequenceLines& lines, const Problem& problem, const std::vector<Step>& steps,
               std::size_t first, std::string_view all_taken) {
  for (std::size_t number = first; number < steps.size(); ++number) {
    const Step& step = steps[number];
    const Step* const next = number + 1 < steps.size() ? &steps[number + 1] : nullptr;
    const std::vector<std::string> wgmmas =
        next ? step_wgmmas(problem, *next, number + 1) : std::vector<std::string>{};
    const std::string_view d = accumulator_of(static_cast<int>(number));
    lines.blank();
    if (step.sends) {
      lines.add(fmt::format("// Chunk {} leaves for the peer{}.", step.chunk,
                            !next ? std::string()
                            : next->sends
                                ? fmt::format(", under the wgmmas of {}", next->chunk)
                                : fmt::format(", under those of this CTA's chunk {}", next->chunk)));
      if (next) add_wgmmas(lines, wgmmas);
      lines.add(fmt::format("send_chunk<{}>({}, tile, thread);", step.chunk, d));
      if (next && !next->sends) lines.add(receive(next->chunk));
    } else {
      lines.add(fmt::format("// Chunk {} of this CTA leaves{}.", step.chunk,
                            next ? fmt::format(", between the wgmmas of {}", next->chunk) : ""));
      if (next) lines.add("wgmma_fence();");
      lines.add(fmt::format("add_received({}, received);", d));
      if (number == 0 || steps[number - 1].sends)
        lines.add(fmt::format("free_slot<{}>(received, first_lane);", step.chunk));
      lines.add(fmt::format("exchange_in_place({}, rows);", d));
      std::size_t issued = 0;
      for (int part = 0; part < 4; ++part) {
        for (int i = 0; i < kWgmmasBeforeReduction && issued < wgmmas.size(); ++i)
          lines.add(wgmmas[issued++]);
        if (next && part == kReceiveBefore) lines.add(receive(next->chunk) + "\nwgmma_fence();");
        lines.add(fmt::format("reduce_exchanged_row<{}>({}, rows, {});", part, d, step.chunk * kPanel));
        if (next && part == kFreeBehind)
          lines.add(fmt::format("free_slot<{}>(received, first_lane);", next->chunk));
      }
    }
    if (number + 2 == steps.size()) lines.add(all_taken);
    if (next) lines.add("wgmma_wait_group<0>();");
  }
}

std::string send_tile(const Problem& problem) {
  const int chunks = chunks_of(problem);
  std::vector<Step> steps;
  for (int chunk = 0; chunk < chunks; ++chunk) steps.push_back({chunk, true});
  for (int chunk = chunks - kScoreOwns; chunk < chunks; ++chunk) steps.push_back({chunk, false});
  SequenceLines lines;
  lines.add("// Chunk 0 leaves ahead of d_q's columns: the peer's first own chunk waits for it.");
  add_wgmmas(lines, step_wgmmas(problem, steps[0], 0));
  add_d_q(lines, problem, 0, "d_q_tail", 256);
  lines.add("wgmma_wait_group<1>();\nsend_chunk<0>(even, tile, thread);");
  lines.add(
      "wgmma_wait_group<0>();  // d_q's are done: kv has been read\nif (first_lane) {\n"
      "  mbarrier_arrive(own(Shared::empty));\n  mbarrier_arrive(own(Shared::empty + 8));\n}");
  add_wgmmas(lines, step_wgmmas(problem, steps[1], 1));
  lines.add("wgmma_wait_group<0>();");
  add_steps(lines, problem, steps, 1, "");
  return fmt::format(
      R"(// One tile of the score warpgroup behind its scores, written out by the generator: d_q's columns below {}, the chunks
// of d_kv that the peer owns, and the own ones from {} on.
PTX_FN void send_tile(float (&d_q)[128], float (&d_q_tail)[16], const u32 (&ds_of_heads)[4][4], const u32 (&p)[4][4],
                      const u32 (&ds)[4][4], const ReductionRows& rows, int tile, int thread) {{
  const u32 rank = cluster_ctarank(), peer = rank ^ 1;
  const bool first_lane = thread % 32 == 0;
  float even[16], odd[16];  // chunks in turn
  u32 received[2][4];       // what the peer adds to the next own chunk

{}}}
)",
      problem.d_tail ? 288 : 256, chunks - kScoreOwns, lines.text());
}

std::string own_tile(const Problem& problem) {
  const int last = chunks_of(problem) - kScoreOwns - 1;
  std::vector<Step> steps;
  for (int chunk = 0; chunk <= last; ++chunk) steps.push_back({chunk, false});
  SequenceLines lines;
  lines.add("// d_q's columns; the first own chunk behind them.");
  add_d_q(lines, problem, problem.d_tail ? 320 : 256, "d_q_first", 288);
  lines.add(
      "u32 p[4][4], ds[4][4];  // while those run\nload_transposed(p, ds, thread);\n"
      "open_p(and_of(p) & and_of(ds) & and_of(ds_of_heads), first_lane);");
  add_wgmmas(lines, step_wgmmas(problem, steps[0], 0));
  lines.add(
      "wgmma_wait_group<1>();  // d_q's are done: kv has been read\nif (first_lane) {\n"
      "  mbarrier_arrive(own(Shared::empty + 8));\n  mbarrier_arrive(own(Shared::empty + 16));\n"
      "  mbarrier_arrive_cluster(peers(PairShared::kv_open));\n}");
  lines.add(receive(0) + "\nwgmma_wait_group<0>();");
  add_steps(lines, problem, steps, 0, "if (more_tiles) give_back_p(received);");
  return fmt::format(
      R"(// One tile of the gradient warpgroup, written out by the generator: d_q's columns from {} on, and the own chunks of
// d_kv up to {}.
PTX_FN void own_tile(float (&d_q)[128], float (&d_q_first)[16], const u32 (&ds_of_heads)[4][4],
                     const ReductionRows& rows, int tile, int thread, bool more_tiles) {{
  const u32 rank = cluster_ctarank();
  const bool first_lane = thread % 32 == 0;
  float even[16], odd[16];  // chunks in turn
  u32 received[2][4];       // what the peer adds to the next own chunk

{}}}
)",
      problem.d_tail ? 288 : 256, last, lines.text());
}

}  // namespace

std::string pair_sequence(const Problem& problem) {
  return send_tile(problem) + "\n" + own_tile(problem);
}

}  // namespace smla::core
