#include "emulator/global_memory.h"

#include <cstring>

#include "emulator/arithmetic.h"
#include "emulator/findings.h"
#include "emulator/machine.h"
#include "emulator/scheduler.h"
#include "reference/half.h"

namespace smla::core::emulator {
namespace {

constexpr u32 kSeveral = ~0u;

struct Range {
  GlobalBuffer* buffer;
  std::size_t offset;
};

Range check_range(const void* pointer, u32 bytes, u32 alignment, const char* what) {
  GlobalBuffer* buffer = buffer_at(pointer);
  if (!buffer) found_fatal("global-oob", "{} of {} bytes at {}, where no tensor lies", what, bytes, pointer);
  const auto offset = static_cast<const u8*>(pointer) - static_cast<const u8*>(buffer->data());
  if (offset < 0 || static_cast<std::size_t>(offset) + bytes > buffer->bytes()) {
    found_fatal("global-oob", "{} of {} bytes at byte {} of {}, which has {} bytes", what, bytes, offset,
                buffer->name(), buffer->bytes());
  }
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    found_fatal("misaligned", "{} at byte {} of {}, which is no multiple of {}", what, offset, buffer->name(),
                alignment);
  }
  return {buffer, static_cast<std::size_t>(offset)};
}

u32 my_cta() {
  return me().cta->index + 1;
}

std::string cta_text(u32 cta) {
  return cta == kSeveral ? "several CTAs" : fmt::format("CTA {}", cta - 1);
}

bool by_others(u32 cta) {
  return cta != 0 && cta != my_cta();
}

// Whether what `lane` of this CTA did at `clock` of its warp is ordered before the running lane.
bool ordered(u16 lane, u32 clock) {
  return lane == me().index || clock <= me().clocks.seen.at[me().cta->warps[lane / kLanes].component];
}

void add_cta(u32& set) {
  set = set == 0 || set == my_cta() ? my_cta() : kSeveral;
}

std::string word_text(const Range& range, std::size_t word) {
  return fmt::format("byte {} of {}", word * 4, range.buffer->name());
}

WordRecord& record_of(const Range& range, std::size_t index) {
  WordRecord& word = range.buffer->word(index);
  if (word.epoch != machine().epoch) {
    const bool initialised = word.initialised;
    word = {};
    word.epoch = machine().epoch;
    word.initialised = initialised;
  }
  return word;
}

template <class Visit>
void each_word(const Range& range, u32 bytes, Visit visit) {
  for (std::size_t i = range.offset / 4; i < (range.offset + bytes + 3) / 4; ++i)
    visit(record_of(range, i), i);
}

void note_read(const Range& range, u32 bytes, GlobalUse use, const char* what) {
  each_word(range, bytes, [&](WordRecord& word, std::size_t i) {
    if (!word.initialised)
      found("uninitialised", "{} of {}, which nobody has written", what, word_text(range, i));
    if (by_others(word.writer_cta)) {
      found("global-race", "{} of {}, which {} writes in the same launch", what, word_text(range, i),
            cta_text(word.writer_cta));
    } else if (word.writer_cta && !ordered(word.writer_lane, word.write_clock)) {
      found("global-race", "{} of {} is not ordered after the write of thread {} of this CTA", what,
            word_text(range, i), word.writer_lane);
    }
    if (use == GlobalUse::read_relaxed) return;
    if (word.reducer_cta) {
      found("global-race", "{} of {}, to which {} adds in the same launch", what, word_text(range, i),
            cta_text(word.reducer_cta));
    }
    if (use == GlobalUse::read_nc && word.writer_cta) {
      found("nc-of-written", "{} of {}, which this launch has written", what, word_text(range, i));
    }
    add_cta(word.reader_cta);
    word.reader_lane = static_cast<u16>(me().index);
    word.read_clock = my_warp().clock;
    word.read_nc |= use == GlobalUse::read_nc;
  });
}

void note_write(const Range& range, u32 bytes, GlobalUse use, const char* what) {
  each_word(range, bytes, [&](WordRecord& word, std::size_t i) {
    if (by_others(word.writer_cta)) {
      found("global-race", "{} to {}, which {} writes in the same launch", what, word_text(range, i),
            cta_text(word.writer_cta));
    } else if (word.writer_cta && !ordered(word.writer_lane, word.write_clock)) {
      found("global-race", "{} to {} is not ordered after the write of thread {} of this CTA", what,
            word_text(range, i), word.writer_lane);
    }
    if (by_others(word.reader_cta)) {
      found("global-race", "{} to {}, which {} reads in the same launch", what, word_text(range, i),
            cta_text(word.reader_cta));
    } else if (word.reader_cta && !ordered(word.reader_lane, word.read_clock)) {
      found("global-race", "{} to {} is not ordered after the read of thread {} of this CTA", what,
            word_text(range, i), word.reader_lane);
    }
    if (word.read_nc) {
      found("nc-of-written", "{} to {}, which ld.global.nc has read in this launch", what,
            word_text(range, i));
    }
    if (use == GlobalUse::reduce) {
      if (!word.initialised)
        found("uninitialised", "{} to {}, which nobody has set", what, word_text(range, i));
      add_cta(word.reducer_cta);
      return;
    }
    if (word.reducer_cta) {
      found("global-race", "{} to {}, to which {} adds in the same launch", what, word_text(range, i),
            cta_text(word.reducer_cta));
    }
    word.writer_cta = my_cta();
    word.writer_lane = static_cast<u16>(me().index);
    word.write_clock = my_warp().clock;
    word.initialised = true;
  });
}

}  // namespace

void check_global_read(const void* pointer, u32 bytes, u32 alignment, GlobalUse use, const char* what) {
  const Range range = check_range(pointer, bytes, alignment, what);
  if (!range.buffer->read_only()) note_read(range, bytes, use, what);
}

void check_global_write(const void* pointer, u32 bytes, u32 alignment, GlobalUse use, const char* what) {
  const Range range = check_range(pointer, bytes, alignment, what);
  if (range.buffer->read_only()) {
    found_fatal("global-read-only", "{} to byte {} of {}, an input", what, range.offset,
                range.buffer->name());
  }
  note_write(range, bytes, use, what);
}

void call_ld_global(void* value, const void* pointer, int bytes, int access) {
  note_place();
  const u32 n = static_cast<u32>(bytes);
  if (access == kGlobalReadRelaxed) {
    yield();  // others may move on between two polls
    check_global_read(pointer, n, n, GlobalUse::read_relaxed, "ld.relaxed.gpu");
  } else {
    check_global_read(pointer, n, n, access == kGlobalReadNc ? GlobalUse::read_nc : GlobalUse::read,
                      access == kGlobalReadNc ? "ld.global.nc" : "ld.global");
  }
  std::memcpy(value, pointer, n);
}

void call_st_global(void* pointer, const void* value, int bytes) {
  note_place();
  const u32 n = static_cast<u32>(bytes);
  check_global_write(pointer, n, n, GlobalUse::write, "st.global");
  std::memcpy(pointer, value, n);
}

void call_red_u32(u32* pointer, u32 value) {
  note_place();
  check_global_write(pointer, 4, 4, GlobalUse::reduce, "red.add.u32");
  *pointer += value;
}

void call_red_or_u32(void* pointer, u32 bits) {
  note_place();
  check_global_write(pointer, 4, 4, GlobalUse::reduce, "red.or.b32");
  *static_cast<u32*>(pointer) |= bits;
}

void call_red_u64(void* pointer, unsigned long long value) {
  note_place();
  check_global_write(pointer, 8, 8, GlobalUse::reduce, "red.add.u64");
  *static_cast<u64*>(pointer) += value;
  ++machine().report->reductions;
}

void call_red_f32(void* pointer, const float* values, int count) {
  note_place();
  for (int i = 0; i < count; ++i) check_poison(values[i], "red");
  const u32 bytes = static_cast<u32>(count) * 4;
  check_global_write(pointer, bytes, bytes, GlobalUse::reduce, "red.add.f32");
  for (int i = 0; i < count; ++i) static_cast<float*>(pointer)[i] += values[i];
  ++machine().report->reductions;
}

void call_red_f16x2(void* pointer, const u32* pairs, int count) {
  note_place();
  const u32 bytes = static_cast<u32>(count) * 4;
  check_global_write(pointer, bytes, bytes, GlobalUse::reduce, "red.add.f16x2");
  auto* sums = static_cast<std::uint16_t*>(pointer);
  for (int i = 0; i < count; ++i) {
    for (const int half : {0, 1}) {
      const double value = fp16_to_float(static_cast<std::uint16_t>(pairs[i] >> (16 * half)));
      std::uint16_t& sum = sums[2 * i + half];
      sum = to_fp16(fp16_to_float(sum) + value);
    }
  }
  ++machine().report->reductions;
}

void call_bulk_prefetch(const void* source, int bytes) {
  note_place();
  if (bytes <= 0 || bytes % 16 != 0)
    found_fatal("prefetch-size", "cp.async.bulk.prefetch of {} bytes", bytes);
  check_range(source, static_cast<u32>(bytes), 16, "cp.async.bulk.prefetch");
}

}  // namespace smla::core::emulator
