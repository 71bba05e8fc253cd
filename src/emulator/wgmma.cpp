#include "emulator/wgmma.h"

#include <cstring>

#include "emulator/arithmetic.h"
#include "emulator/scheduler.h"
#include "emulator/wgmma_descriptor.h"

namespace smla::core::emulator {
namespace {

struct WgmmaArgument {
  float* d;
  const u32* a;
};

u32 mark_of(u32 group) {
  return kReadInFlight | (group & ~kReadInFlight);
}

u32 first_row(const Warp& warp) {
  return warp.index % 4 * 16;
}

// Calls visit(register, value) for each accumulator of the warp.
template <class Visit>
void each_accumulator(Accumulator& d, Visit visit) {
  for (u32 lane = 0; lane < kLanes; ++lane) {
    for (u32 i = 0; i < d.columns / 2; ++i) {
      const u32 row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      visit(d.registers[lane][i], d.values[row * d.columns + column]);
    }
  }
}

using LeftOperand = float[16][16];
using RightOperand = float[16][256];  // [k][n]

void load_left(Cta& cta, const Warp& warp, const WgmmaInFlight& op, LeftOperand& left) {
  if (op.a_in_registers) {
    for (u32 lane = 0; lane < kLanes; ++lane) {
      for (u32 i = 0; i < 4; ++i) {
        const u32 bits = op.a_values[lane][i];
        float* target = &left[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8];
        target[0] = operand_to_float(static_cast<u16>(bits & 0xffffu), op.is_bf16);
        target[1] = operand_to_float(static_cast<u16>(bits >> 16), op.is_bf16);
      }
    }
    return;
  }
  const u32 first = first_row(warp);
  each_piece(WgmmaDescriptor(op.a), op.trans_a, first, 16, [&](u32 address, u32 m, u32 k) {
    u16 piece[8];
    std::memcpy(piece, cta.shared.data(address), 16);
    for (u32 i = 0; i < 8; ++i) {
      (op.trans_a ? left[m - first + i][k] : left[m - first][k + i]) = operand_to_float(piece[i], op.is_bf16);
    }
  });
}

void load_right(Cta& cta, const WgmmaInFlight& op, RightOperand& right) {
  each_piece(WgmmaDescriptor(op.b), op.trans_b, 0, op.columns, [&](u32 address, u32 n, u32 k) {
    u16 piece[8];
    std::memcpy(piece, cta.shared.data(address), 16);
    for (u32 i = 0; i < 8; ++i) {
      (op.trans_b ? right[k][n + i] : right[k + i][n]) = operand_to_float(piece[i], op.is_bf16);
    }
  });
}

// In fp32, one product after another along k.
void multiply(const LeftOperand& left, const RightOperand& right, float* d, u32 columns) {
  constexpr u32 kBlock = 32;
  for (u32 row = 0; row < 16; ++row) {
    for (u32 first = 0; first < columns; first += kBlock) {
      float sums[kBlock];
      float* target = d + row * columns + first;
      std::memcpy(sums, target, sizeof sums);
      for (u32 k = 0; k < 16; ++k) {
        const float factor = left[row][k];
        for (u32 i = 0; i < kBlock; ++i) sums[i] += factor * right[k][first + i];
      }
      std::memcpy(target, sums, sizeof sums);
    }
  }
}

void execute(Cta& cta, const Warp& warp, WgmmaInFlight& op) {
  if (op.executed) return;
  op.executed = true;
  alignas(64) static LeftOperand left;
  alignas(64) static RightOperand right;
  load_left(cta, warp, op, left);
  load_right(cta, op, right);
  Accumulator& d = *op.accumulator;
  if (!op.scale_d) std::fill(d.values.begin(), d.values.end(), 0.0f);
  multiply(left, right, d.values.data(), d.columns);
}

// The operands in shared memory have been read: the warp's clock says when.
void end_reads(Cta& cta, const Warp& warp, const WgmmaInFlight& op) {
  const u32 mark = mark_of(op.group);
  const auto end = [&](u32 address, u32, u32) {
    cta.shared.each(address, 16, [&](SharedWrite&, SharedReads& reads, u32) {
      if (reads[warp.index] == mark) reads[warp.index] = warp.clock - 1;
    });
  };
  if (!op.a_in_registers) each_piece(WgmmaDescriptor(op.a), op.trans_a, first_row(warp), 16, end);
  each_piece(WgmmaDescriptor(op.b), op.trans_b, 0, op.columns, end);
}

// Finishes the operations of groups before `group`.
void retire(Cta& cta, Warp& warp, u32 group) {
  WgmmaState& state = warp.wgmma;
  while (state.in_flight() && state.operations.front().group < group) {
    WgmmaInFlight& op = state.operations.front();
    execute(cta, warp, op);
    end_reads(cta, warp, op);
    for (u32 lane = 0; op.a_in_registers && lane < kLanes; ++lane) {
      if (std::memcmp(op.a_registers[lane], op.a_values[lane].data(), 16) != 0) {
        found("a-fragment-changed",
              std::string("the registers of A were changed while the wgmma was in flight"), op.place);
        break;
      }
    }
    Accumulator* d = op.accumulator;
    if (op.a_in_registers) warp.unused_loads.use(op.loads_before, warp.clock);
    if (--d->pending == 0) {
      bool touched = false;
      each_accumulator(*d, [&](float& r, float& value) {
        touched |= !is_poison(r);
        r = value;
      });
      if (touched) {
        found("accumulator-written",
              std::string("accumulators were written while a wgmma on them was in flight"), op.place);
      }
      std::erase_if(state.accumulators, [&](const auto& owned) { return owned.get() == d; });
    }
    state.operations.pop_front();
  }
}

// A finding when this warp's sequence of wgmmas is not that of the other warps of its warpgroup.
void check_warpgroup(Cta& cta, Warp& warp) {
  auto& log = cta.wgmma_log[warp.index / 4];
  const u64 key = warp.meeting.key;
  if (warp.wgmma.count == log.size()) {
    log.push_back(key);
  } else if (log[warp.wgmma.count] != key) {
    found("divergent-wgmma",
          std::string("this warp's wgmma is another than its warpgroup's at this place of the sequence"));
  }
  ++warp.wgmma.count;
}

// Registers that a thread of this warp needs at least: operands of wgmmas in flight, and accumulators that
// carry a sum from one wait to the next. A kernel that gives its warpgroup more by setmaxnreg.inc needs them
// here.
void check_registers(Warp& warp) {
  std::map<const void*, u32> needed = warp.wgmma.kept;
  for (const WgmmaInFlight& op : warp.wgmma.operations) {
    needed.emplace(op.accumulator->registers[0], op.columns / 2);
    if (op.a_in_registers) needed.emplace(op.a_registers[0], 4);
  }
  u32 sum = 0;
  for (const auto& [array, size] : needed) sum += size;
  if (sum > warp.registers) {
    found("registers",
          "the accumulators and fragments of this warp's wgmmas are {} registers, and a thread has {}", sum,
          warp.registers);
  }
}

Accumulator& accumulator_of(Warp& warp, const std::array<const WgmmaArgument*, kLanes>& arguments,
                            u32 columns, bool scale_d) {
  WgmmaState& state = warp.wgmma;
  for (const auto& known : state.accumulators) {
    if (known->registers[0] != arguments[0]->d) continue;
    if (known->columns != columns) {
      found_fatal("accumulator-shape", std::string("a wgmma of another shape on accumulators in flight"));
    }
    return *known;
  }
  if (!state.fenced) {
    found("no-wgmma-fence",
          std::string("the first wgmma on these registers, with no wgmma.fence since the last wait_group"));
  }
  Accumulator& d = *state.accumulators.emplace_back(std::make_unique<Accumulator>());
  d.columns = columns;
  d.values.resize(16 * columns);
  for (u32 lane = 0; lane < kLanes; ++lane) d.registers[lane] = arguments[lane]->d;
  bool owned = false;
  each_accumulator(d, [&](float& r, float& value) {
    owned |= is_poison(r);
    value = r;
    r = std::bit_cast<float>(kPoison);
  });
  if (owned && scale_d) {
    found("poison", std::string("a wgmma adds to registers that another wgmma in flight owns"));
  }
  if (scale_d) state.kept.emplace(arguments[0]->d, columns / 2);
  return d;
}

void check_operand(Cta& cta, Warp& warp, u64 descriptor, bool transposed, u32 first, u32 count, u32 mark,
                   const char* what) {
  Lane& lane = lane_of(cta, warp.index, 0);  // all lanes have met, so their clocks are one
  each_piece(WgmmaDescriptor(descriptor), transposed, first, count, [&](u32 address, u32, u32) {
    check_shared_bounds(cta, address, 16, 16, what);
    shared_read_async(lane, address, mark, what);
  });
}

}  // namespace

void call_wgmma(float* d, int n, const u32* a_fragment, unsigned long long a, unsigned long long b,
                int scale_d, int trans_a, int trans_b, int is_bf16) {
  note_place();
  const u32 columns = static_cast<u32>(n);
  WgmmaArgument mine = {d, a_fragment};
  const u64 shape = columns * 64 + static_cast<u32>(is_bf16 * 16 + scale_d * 4 + trans_a * 2 + trans_b);
  const u64 key =
      (a * 0x9e3779b97f4a7c15ull) ^ (b * 0xc2b2ae3d27d4eb4full) ^ shape ^ (u64{a_fragment != nullptr} << 60);
  collective(kWgmma, key, &mine, "wgmma.mma_async", [&](Warp& warp) {
    Cta& cta = *me().cta;
    ++machine().report->wgmmas;
    std::array<const WgmmaArgument*, kLanes> arguments;
    for (u32 lane = 0; lane < kLanes; ++lane) {
      arguments[lane] = static_cast<const WgmmaArgument*>(warp.meeting.argument[lane]);
    }
    check_warpgroup(cta, warp);
    Accumulator& accumulator = accumulator_of(warp, arguments, columns, scale_d != 0);
    ++accumulator.pending;
    WgmmaInFlight& op =
        warp.wgmma.operations.emplace_back(WgmmaInFlight{.accumulator = &accumulator,
                                                         .group = warp.wgmma.group,
                                                         .a = a,
                                                         .b = b,
                                                         .columns = columns,
                                                         .scale_d = scale_d != 0,
                                                         .trans_a = trans_a != 0,
                                                         .trans_b = trans_b != 0,
                                                         .is_bf16 = is_bf16 != 0,
                                                         .a_in_registers = a_fragment != nullptr});
    op.place = me().place;
    if (op.a_in_registers) op.loads_before = warp.unused_loads.cut();
    for (u32 lane = 0; op.a_in_registers && lane < kLanes; ++lane) {
      op.a_registers[lane] = arguments[lane]->a;
      std::memcpy(op.a_values[lane].data(), arguments[lane]->a, 16);
    }
    check_registers(warp);
    const u32 mark = mark_of(op.group);
    if (!op.a_in_registers) check_operand(cta, warp, a, op.trans_a, first_row(warp), 16, mark, "wgmma's A");
    check_operand(cta, warp, b, op.trans_b, 0, columns, mark, "wgmma's B");
    // Operands are read now or as late as the wait.
    if (machine().random() % 2) {
      for (WgmmaInFlight& earlier : warp.wgmma.operations) {
        if (earlier.accumulator == &accumulator) execute(cta, warp, earlier);
      }
    }
  });
}

void call_wgmma_fence() {
  note_place();
  collective(kWgmmaFence, 0, nullptr, "wgmma.fence", [](Warp& warp) { warp.wgmma.fenced = true; });
}

void call_wgmma_commit_group() {
  note_place();
  collective(kWgmmaCommit, 0, nullptr, "wgmma.commit_group", [](Warp& warp) { ++warp.wgmma.group; });
}

void call_wgmma_wait_group(int pending) {
  note_place();
  collective(kWgmmaWait, static_cast<u64>(pending), nullptr, "wgmma.wait_group", [&](Warp& warp) {
    const u32 open = static_cast<u32>(pending);
    if (warp.wgmma.group <= open) return;
    const bool waited = warp.wgmma.in_flight();
    retire(*me().cta, warp, warp.wgmma.group - open);
    if (waited) warp.wgmma.fenced = false;
  });
}

}  // namespace smla::core::emulator
