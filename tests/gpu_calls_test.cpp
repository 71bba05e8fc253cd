// What a call promises beside its numbers: 64-bit offsets, repeatability, no allocation, streams, graphs, one
// kernel for all lengths, no cost of padding.
#include <cstdlib>
#include <new>

#include "cases_of_options.h"
#include "catch.h"
#include "gpu_call.h"

namespace {
thread_local long host_allocations = 0;  // of this thread
}

#ifndef SMLA_SANITIZED  // sanitizers bring their own new and delete
// Not inlined: gcc would take free() for the wrong partner of the new that it can no longer see.
#define SMLA_OUTSIDE __attribute__((noinline))

SMLA_OUTSIDE void* operator new(std::size_t bytes) {
  ++host_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
SMLA_OUTSIDE void operator delete(void* memory) noexcept {
  std::free(memory);
}
SMLA_OUTSIDE void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

using namespace smla_test;

namespace {

std::vector<Setting> settings_of_whole_blocks() {
  std::vector<Setting> some;
  for (const Setting& s : settings(require_gpu())) {
    if (s.heads_per_group % 64 == 0) some.push_back(s);
  }
  return some;
}

std::vector<Schedule> schedules() {
  std::vector<Schedule> all = {Schedule::cp_async};
  if (has_wgmma(require_gpu().arch)) {
    all.push_back(Schedule::wgmma);
    all.push_back(Schedule::wgmma_pair);
  }
  return all;
}

template <class T>
void copy_rows(const DeviceBuffer& to, std::int64_t first_row, std::int64_t row_bytes,
               const std::vector<T>& rows) {
  copy_to_device(bytes_of(to) + first_row * row_bytes, rows.data(), rows.size() * sizeof(T));
}

// Repeats a block of rows from the start of the buffer to its end.
template <class T>
void tile(const DeviceBuffer& to, const std::vector<T>& block) {
  std::size_t filled = std::min(to.bytes(), block.size() * sizeof(T));
  copy_to_device(to.data(), block.data(), filled);
  while (filled < to.bytes()) {
    const std::size_t more = std::min(filled, to.bytes() - filled);
    copy_on_device(bytes_of(to) + filled, to.data(), more);
    filled += more;
  }
}

std::vector<std::uint16_t> host_rows(const void* from, std::int64_t count) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  copy_to_host(values.data(), from, values.size() * 2);
  return values;
}

Tensor moved(const Tensor& tensor, std::int64_t bytes) {
  return {static_cast<char*>(tensor.data) + bytes, tensor.strides};
}

// While alive, what is not compiled already is an error.
struct WithoutCompiling {
  WithoutCompiling() { ::setenv("SMLA_JIT", "off", 1); }
  ~WithoutCompiling() { ::unsetenv("SMLA_JIT"); }
  WithoutCompiling(const WithoutCompiling&) = delete;
  WithoutCompiling& operator=(const WithoutCompiling&) = delete;
};

}  // namespace

TEST_CASE("C11: rows beyond 2^31 elements get the gradients of a call on them alone", "[gpu]") {
  require_gpu();
  constexpr std::int64_t kQueries = 33000, kHeads = 128, kKeys = 4096, kTopk = 64, kSlice = 64;
  constexpr std::int64_t kOwnKeys = 512;  // listed by the last slice alone, so that its d_kv can be compared
  const Problem problem{.heads = static_cast<int>(kHeads)};
  const std::int64_t q_row = kHeads * 576 * 2, o_row = kHeads * 512 * 2;
  if (free_device_memory() <
      static_cast<std::size_t>(kQueries * (2 * q_row + 2 * o_row) + (std::int64_t{2} << 30))) {
    SKIP("the GPU has less than 21 GB free");
  }
  const Case block = unforwarded_case(problem, {.queries = kSlice, .keys = kKeys, .topk = kTopk}, 1);
  const Case last = unforwarded_case(problem, {.queries = kSlice, .keys = kOwnKeys, .topk = kTopk}, 2);
  std::vector<std::int32_t> lists =
      make_lists(problem, {.queries = kQueries, .keys = kKeys - kOwnKeys, .topk = kTopk}, 3);
  for (std::size_t i = 0; i < last.tensors.indices.size(); ++i) {
    lists[static_cast<std::size_t>((kQueries - kSlice) * kTopk) + i] =
        last.tensors.indices[i] + static_cast<std::int32_t>(kKeys - kOwnKeys);
  }

  const auto buffer = [](std::int64_t bytes) { return DeviceBuffer(static_cast<std::size_t>(bytes)); };
  const DeviceBuffer q = buffer(kQueries * q_row), d_q = buffer(kQueries * q_row);
  const DeviceBuffer o = buffer(kQueries * o_row), d_o = buffer(kQueries * o_row);
  const DeviceBuffer kv = buffer(kKeys * 576 * 2), d_kv = buffer(kKeys * 576 * 2),
                     slice_d_kv = buffer(kKeys * 576 * 2);
  const DeviceBuffer slice_d_q = buffer(kSlice * q_row);
  const DeviceBuffer indices = buffer(kQueries * kTopk * 4), lse = buffer(kQueries * kHeads * 4);
  tile(q, block.tensors.q);
  tile(d_o, block.tensors.d_o);
  tile(o, last.tensors.d_o);
  copy_rows(q, kQueries - kSlice, q_row, last.tensors.q);
  copy_rows(d_o, kQueries - kSlice, o_row, last.tensors.d_o);
  copy_rows(kv, 0, 576 * 2, block.tensors.kv);
  copy_rows(indices, 0, kTopk * 4, lists);
  tile(lse, block.tensors.lse);

  for (const Schedule schedule : schedules()) {
    INFO(name(schedule));
    const auto plan = create_plan(problem, {.schedule = schedule}, 0);
    Call call;
    call.lengths = {.batch = 1, .queries = kQueries, .keys = kKeys, .topk = kTopk};
    call.order = OrderRequest::callers;
    set_contiguous_strides(call, problem);
    call.q.data = q.data();
    call.kv.data = kv.data();
    call.o.data = o.data();
    call.d_o.data = d_o.data();
    call.indices.data = indices.data();
    call.lse.data = lse.data();
    call.d_q.data = d_q.data();
    call.d_kv.data = d_kv.data();
    call.scale = block.tensors.scale;
    const DeviceBuffer workspace = buffer(workspace_size(*plan, call.lengths, call.order));
    call.workspace = workspace.data();
    call.workspace_bytes = workspace.bytes();
    fill(d_q.data(), 0xff, d_q.bytes());
    run(*plan, call);
    synchronize(call.stream);

    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{29100}, kQueries - kSlice}) {
      INFO("rows from " << first);
      Call slice = call;
      slice.lengths.queries = kSlice;
      slice.q = moved(call.q, first * q_row);
      slice.o = moved(call.o, first * o_row);
      slice.d_o = moved(call.d_o, first * o_row);
      slice.indices = moved(call.indices, first * kTopk * 4);
      slice.lse = moved(call.lse, first * kHeads * 4);
      slice.d_q.data = slice_d_q.data();
      slice.d_kv.data = slice_d_kv.data();
      run(*plan, slice);
      synchronize(call.stream);
      const auto whole_rows = host_rows(bytes_of(d_q) + first * q_row, kSlice * kHeads * 576);
      REQUIRE(whole_rows == host_rows(slice_d_q.data(), kSlice * kHeads * 576));
      const Gradients g = widened(problem, {.d_q = whole_rows, .d_kv = {}, .d_kv_fp32 = {}, .d_sink = {}});
      REQUIRE(difference(g.d_q, g.d_q).finite());
      REQUIRE(!is_zero(g.d_q.data(), std::ssize(g.d_q)));
    }
    const std::int64_t own = (kKeys - kOwnKeys) * 576 * 2;  // the last slice's call was the last
    Outputs whole, alone;
    whole.d_kv = host_rows(bytes_of(d_kv) + own, kOwnKeys * 576);
    alone.d_kv = host_rows(bytes_of(slice_d_kv) + own, kOwnKeys * 576);
    expect_close("d_kv", widened(problem, whole).d_kv, widened(problem, alone).d_kv, 1e-3);
  }
}

TEST_CASE("C29: d_q repeats bit for bit in the caller's order, and d_kv to rounding", "[gpu]") {
  for (const Setting& setting : settings_of_whole_blocks()) {
    INFO(describe(setting));
    Case c = unforwarded_case({.heads = setting.heads_per_group, .d_kv_type = DkvType::fp32},
                              {.queries = 256, .keys = 300, .topk = 256, .duplicate_share = 0.3}, 5);
    GpuCase g = allocate(with_setting(c, setting));
    upload_inputs(g, c.tensors);
    Outputs first;
    double spread = 0;
    for (int i = 0; i < 10; ++i) {
      poison_outputs(g);
      run(*g.plan, g.call);
      synchronize(g.call.stream);
      const Outputs outputs = download(g);
      if (i == 0) {
        first = outputs;
        continue;
      }
      if (setting.order == OrderRequest::automatic || setting.order == OrderRequest::callers) {
        REQUIRE(outputs.d_q == first.d_q);
      } else {
        expect_close("d_q", widened(c.problem, outputs).d_q, widened(c.problem, first).d_q, 1e-3);
      }
      spread = std::max(
          spread, difference(widened(c.problem, outputs).d_kv, widened(c.problem, first).d_kv).relative_l2);
    }
    INFO("spread of d_kv " << spread);
    REQUIRE(spread < 2e-6);
  }
}

TEST_CASE("lists that several CTAs share: right, and d_q has the same bits in every run", "[gpu]") {
  if (!has_wgmma(require_gpu().arch)) SKIP("the GPU has no wgmma");
  for (const Problem& problem :
       {Problem{.heads = 64, .has_sink = true}, Problem{.heads = 128, .d_tail = 0}, Problem{.heads = 96},
        Problem{.heads = 16, .causal = true}, Problem{.heads = 64, .accumulate = Accumulate::partial}}) {
    const Schedule schedule = problem.heads > 64 ? Schedule::wgmma_pair : Schedule::wgmma;
    const auto plan = create_plan(problem, {.schedule = schedule}, 0);
    const std::int64_t wave = std::int64_t{plan->facts.ctas_in_flight} * block_tokens(plan->choice.config) /
                              head_blocks(problem, plan->choice.config);
    for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{16}, wave + 4}) {
      INFO(plan->prepared->name << ", " << queries << " tokens");
      Case c{.problem = problem};
      c.request.schedule = schedule;
      c.tensors = make_inputs(problem,
                              {.queries = queries,
                               .keys = 1000,
                               .topk = 520,
                               .query_offset = 800,
                               .hole_share = 0.05,
                               .dead_share = queries > 1 ? 0.1 : 0},
                              31);
      GpuCase g = allocate(c);
      REQUIRE(order_of(*g.plan, g.call.lengths, c.order).split.shares > 1);
      upload_inputs(g, c.tensors);
      const auto next_run = [&](const Case&) {
        poison_outputs(g);
        run(*g.plan, g.call);
        synchronize(g.call.stream);
        return download(g);
      };
      expect_reference(next_run, c);
      const Outputs first = next_run(c);
      for (int i = 0; i < 5; ++i) REQUIRE(next_run(c).d_q == first.d_q);
    }
  }
}

TEST_CASE("C31: entries beyond topk_length, and -1 behind the last valid one, cost next to nothing",
          "[gpu]") {
  for (const Setting& setting : settings_of_whole_blocks()) {
    INFO(describe(setting));
    Case c = unforwarded_case({.heads = setting.heads_per_group, .has_topk_length = true},
                              {.queries = 4096, .keys = 4096, .topk = 2048}, 6);
    GpuCase g = allocate(with_setting(c, setting));
    upload_inputs(g, c.tensors);
    const auto fastest = [&](std::int32_t length) {
      c.tensors.topk_length.assign(c.tensors.topk_length.size(), length);
      upload(g.topk_length, c.tensors.topk_length);
      float best = std::numeric_limits<float>::infinity();
      const Event begin, end;
      for (int i = 0; i < 6; ++i) {
        record(begin, g.call.stream);
        run(*g.plan, g.call);
        record(end, g.call.stream);
        synchronize(end);
        best = std::min(best, milliseconds(begin, end));
      }
      return best;
    };
    const float short_lists = fastest(64);
    const float full_lists = fastest(2048);
    for (std::size_t i = 0; i < c.tensors.indices.size(); ++i) {
      if (i % 2048 >= 64) c.tensors.indices[i] = -1;
    }
    upload(g.indices, c.tensors.indices);
    const float padded_lists = fastest(2048);
    INFO("64 entries " << short_lists << " ms, 64 and 1984 of -1 " << padded_lists << " ms, 2048 entries "
                       << full_lists << " ms");
    REQUIRE(short_lists * 10 <= full_lists);
    REQUIRE(padded_lists * 10 <= full_lists);
  }
}

TEST_CASE("C32: a call allocates neither host nor device memory", "[gpu]") {
  for (const Setting& setting : settings_of_whole_blocks()) {
    INFO(describe(setting));
    const Case c = with_setting(layout_case(setting.heads_per_group), setting);
    GpuCase g = allocate(c);
    upload_inputs(g, c.tensors);
    run(*g.plan, g.call);
    synchronize(g.call.stream);
    const std::size_t free_before = free_device_memory();
    const long allocations_before = host_allocations;
    for (int i = 0; i < 100; ++i) run(*g.plan, g.call);
    const long allocations = host_allocations - allocations_before;
    synchronize(g.call.stream);
    REQUIRE(allocations == 0);
    REQUIRE(free_device_memory() == free_before);
    expect_reference([&](const Case&) { return download(g); }, c);
  }
}

TEST_CASE("C38: a call on a side stream sees what a slow producer before it wrote", "[gpu]") {
  for (const Setting& setting : settings_of_whole_blocks()) {
    INFO(describe(setting));
    const Case c = with_setting(layout_case(setting.heads_per_group), setting);
    GpuCase source = allocate(c);
    upload_inputs(source, c.tensors);
    GpuCase g = allocate(c);  // inputs are NaN, lists are -1
    const Stream stream;
    g.call.stream = stream.handle();
    const DeviceBuffer load(std::size_t{512} << 20);
    synchronize(cuda::Stream{});
    const Event begin, produced;
    record(begin, stream.handle());
    const std::size_t half = load.bytes() / 2;
    for (int i = 0; i < 100; ++i) copy_on_device(bytes_of(load) + half, load.data(), half, stream.handle());
    for (GpuTensor GpuCase::*tensor :
         {&GpuCase::q, &GpuCase::kv, &GpuCase::o, &GpuCase::d_o, &GpuCase::indices, &GpuCase::topk_length,
          &GpuCase::lse, &GpuCase::attn_sink, &GpuCase::delta}) {
      const DeviceBuffer& from = (source.*tensor).buffer;
      copy_on_device((g.*tensor).buffer.data(), from.data(), from.bytes(), stream.handle());
    }
    record(produced, stream.handle());
    run(*g.plan, g.call);
    synchronize(stream.handle());
    REQUIRE(milliseconds(begin, produced) > 2);
    expect_reference([&](const Case&) { return download(g); }, c);
  }
}

TEST_CASE("C40: a captured call replays with changed inputs", "[gpu]") {
  for (const Setting& setting : settings_of_whole_blocks()) {
    INFO(describe(setting));
    const Case c = with_setting(layout_case(setting.heads_per_group), setting);
    GpuCase g = allocate(c);
    upload_inputs(g, c.tensors);
    const Stream stream;
    g.call.stream = stream.handle();
    begin_capture(stream.handle());
    run(*g.plan, g.call);
    const CapturedGraph graph = end_capture(stream.handle());
    Case changed = c;
    for (const std::uint64_t seed : {21u, 22u}) {
      changed.tensors =
          make_inputs(c.problem, {.batch = 2, .queries = 5, .keys = 80, .topk = 71, .junk_share = 0.2}, seed);
      upload_inputs(g, changed.tensors);
      poison_outputs(g);
      synchronize(cuda::Stream{});
      graph.launch(stream.handle());
      synchronize(stream.handle());
      expect_reference([&](const Case&) { return download(g); }, changed);
    }
  }
}

TEST_CASE("lists that one call wrote serve a captured second one with other values", "[gpu]") {
  const Gpu& gpu = require_gpu();
  if (!has_wgmma(gpu.arch)) SKIP("the GPU has no wgmma, and other schedules sort no lists");
  std::vector<Case> cases;
  for (const Setting& setting : settings(gpu)) {
    cases.push_back(with_setting(layout_case(setting.heads_per_group), setting));
  }
  cases.push_back(with_setting(layout_case(16), {Schedule::wgmma, 16, OrderRequest::automatic}));
  cases.back().problem.accumulate = Accumulate::partial;
  cases.push_back(with_setting(layout_case(64), {Schedule::wgmma, 64, OrderRequest::sorted}));
  cases.back().problem.deterministic = true;
  int sorting = 0;
  for (const Case& c : cases) {
    GpuCase g = allocate(c);
    const auto bytes = static_cast<std::size_t>(lists_size(*g.plan, g.call.lengths, g.call.order));
    if (bytes == 0) continue;
    ++sorting;
    INFO(g.plan->prepared->name << ", order " << static_cast<int>(c.order));
    const DeviceBuffer lists(bytes);
    fill(lists.data(), 0xff, bytes);
    g.call.lists = lists.data();
    g.call.lists_bytes = bytes;
    g.workspace = DeviceBuffer(g.call.workspace_bytes - bytes);
    g.call.workspace = g.workspace.data();
    g.call.workspace_bytes = g.workspace.bytes();
    poison_outputs(g);
    upload_inputs(g, c.tensors);
    run(*g.plan, g.call);
    synchronize(g.call.stream);
    expect_reference([&](const Case&) { return download(g); }, c);

    const Stream stream;
    g.call.stream = stream.handle();
    g.call.lists_are_ready = true;
    begin_capture(stream.handle());
    run(*g.plan, g.call);
    const CapturedGraph graph = end_capture(stream.handle());
    Case changed = c;
    for (const std::uint64_t seed : {21u, 22u}) {
      changed.tensors =
          make_inputs(c.problem, {.batch = 2, .queries = 5, .keys = 80, .topk = 71, .junk_share = 0.2}, seed);
      changed.tensors.indices = c.tensors.indices;
      changed.tensors.topk_length = c.tensors.topk_length;
      add_forward(c.problem, changed.tensors);
      upload_inputs(g, changed.tensors);
      poison_outputs(g);
      synchronize(cuda::Stream{});
      graph.launch(stream.handle());
      synchronize(stream.handle());
      expect_reference([&](const Case&) { return download(g); }, changed);
    }
  }
  REQUIRE(sorting >= 8);
}

TEST_CASE("C40: a plan that would have to compile under capture is refused", "[gpu]") {
  require_gpu();
  const Stream stream;
  const Problem unseen{.heads = 61, .d_tail = 0, .causal = true};
  begin_capture(stream.handle());
  Status status = Status::success;
  try {
    create_plan(unseen, {}, 0, stream.handle());
  } catch (const Error& error) {
    status = error.status();
  }
  end_capture(stream.handle());
  REQUIRE(status == Status::capturing);
}

TEST_CASE("C54: fifty lengths use one kernel", "[gpu]") {
  for (const Schedule schedule : schedules()) {
    const Problem problem{.heads = schedule == Schedule::wgmma_pair ? 128 : 64, .lse_base = LseBase::e};
    const auto plan = create_plan(problem, {.schedule = schedule}, 0);
    const WithoutCompiling without_compiling;
    for (std::int64_t i = 0; i < 50; ++i) {
      Case c{.problem = problem};
      c.tensors = make_inputs(problem, {.queries = 1 + i % 7, .keys = 100 + 13 * i, .topk = 3 + 11 * (i % 9)},
                              static_cast<std::uint64_t>(i));
      c.request.schedule = schedule;
      REQUIRE(create_plan(problem, c.request, 0)->prepared == plan->prepared);
      expect_reference(run_on_gpu, c);
    }
  }
}
