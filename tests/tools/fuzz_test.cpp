// The fuzzer: what it draws, that its command lines mean the cases that they stand for, that it finds faults,
// and random cases on the emulator and on a GPU.
#include "fuzz.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cpu_kernels.h"
#include "driver/driver.h"
#include "temporary_directory.h"

using namespace smla_test;

namespace {

const Arch kHopper = {90, true};

std::vector<CheckCase> drawn(std::uint64_t seed, int count, const Arch& arch, const FuzzSize& size) {
  std::vector<CheckCase> cases;
  for (int i = 0; i < count; ++i) cases.push_back(fuzz_case(seed, i, arch, size));
  return cases;
}

CheckCase parsed(const std::string& flags) {
  CLI::App app("", "smla-check");
  CheckCase c;
  add_case_flags(app, c);
  app.parse(flags);
  return c;
}

std::string failures(const FuzzReport& report) {
  std::string text;
  for (const FuzzFailure& f : report.failures) text += f.command + "\n" + f.what + "\n";
  return text;
}

// While alive, the templates are the library's own but for one change.
class ChangedTemplate {
 public:
  ChangedTemplate(const char* file, const std::string& from, const std::string& to) {
    std::ifstream stream(std::filesystem::path(SMLA_SOURCE_DIR) / "templates" / file);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    std::ofstream(directory_.path() / file) << text.replace(at, from.size(), to);
    ::setenv("SMLA_TEMPLATE_DIR", directory_.path().c_str(), 1);
  }
  ~ChangedTemplate() { ::unsetenv("SMLA_TEMPLATE_DIR"); }
  ChangedTemplate(const ChangedTemplate&) = delete;
  ChangedTemplate& operator=(const ChangedTemplate&) = delete;

 private:
  TemporaryDirectory directory_;
};

// Some of the first hundred cases fails; its own command line fails again, and without the fault it passes.
void expect_found(const char* file, const char* from, const char* to) {
  INFO(file << ": " << from << " -> " << to);
  const std::vector<CheckCase> cases = drawn(1, 96, kHopper, cpu_fuzz_size());
  std::string command;
  {
    const ChangedTemplate fault(file, from, to);
    FuzzReport report;
    for (auto some = cases.begin(); some != cases.end() && report.failures.empty(); some += 16) {
      report = fuzz_on_cpu({some, some + 16}, kHopper);
    }
    REQUIRE_FALSE(report.failures.empty());
    command = report.failures.front().command;
    INFO(command);
    const std::string start = "smla-check --on cpu --arch sm_90a ";
    REQUIRE(command.rfind(start, 0) == 0);
    command = command.substr(start.size());
    const CheckCase alone = parsed(command);
    REQUIRE_FALSE(check_on_cpu(alone, cpu_kernels(alone.flags, kHopper), {}).passed());
  }
  const CheckCase alone = parsed(command);
  REQUIRE(check_on_cpu(alone, cpu_kernels(alone.flags, kHopper), {}).passed());
}

}  // namespace

TEST_CASE("the flags of a fuzzed case read back as the same case") {
  for (const CheckCase& c : drawn(1, 400, kHopper, gpu_fuzz_size())) {
    const std::string flags = flags_of(c);
    CAPTURE(flags);
    const CheckCase back = parsed(flags);
    REQUIRE(flags_of(back) == flags);
    REQUIRE(back.flags.problem == c.flags.problem);
    REQUIRE(back.flags.request == c.flags.request);
    REQUIRE(back.keys == c.keys);
    REQUIRE(back.order == c.order);
    InputOptions inputs = c.inputs, inputs_back = back.inputs;
    inputs.queries = std::min<std::int64_t>(inputs.queries, 4);
    inputs_back.queries = std::min<std::int64_t>(inputs_back.queries, 4);
    inputs.keys = inputs_back.keys = 20;
    inputs.with_forward = inputs_back.with_forward = false;
    REQUIRE(make_inputs(c.flags.problem, inputs, c.seed) ==
            make_inputs(back.flags.problem, inputs_back, back.seed));
    REQUIRE(back.layout == c.layout);
    REQUIRE(back.poison == c.poison);
  }
}

TEST_CASE("fuzzed cases share kernels, and together hold every option, order and kind of list") {
  const std::vector<CheckCase> cases = drawn(1, 300, kHopper, gpu_fuzz_size());
  std::set<std::string> kernels;
  std::map<std::string, bool> seen;
  for (const CheckCase& c : cases) {
    const Problem& p = c.flags.problem;
    const InputOptions& n = c.inputs;
    const Choice choice = choose_config(p, kHopper, c.flags.request);
    kernels.insert(canonical_name(p) + canonical_name(choice.config));
    const auto note = [&seen](const char* what, bool holds) { seen[what] = seen[what] || holds; };
    note("cp_async", choice.config.schedule == Schedule::cp_async);
    note("wgmma", choice.config.schedule == Schedule::wgmma);
    note("wgmma_pair", choice.config.schedule == Schedule::wgmma_pair);
    note("caller's order", c.order == OrderRequest::callers);
    note("sorted", c.order == OrderRequest::sorted);
    note("throttled", c.order == OrderRequest::sorted_throttled);
    note("causal lists", n.lists == ListKind::causal);
    note("groups", p.kv_groups > 1);
    note("padded heads", p.heads_per_group() % 16 != 0);
    note("heads above 128", p.heads > 128);
    note("no tail", p.d_tail == 0);
    note("fp16", p.dtype == DType::fp16);
    note("causal", p.causal);
    note("sink outside lse", p.has_sink && !p.lse_includes_sink);
    note("sink in lse", p.lse_includes_sink);
    note("length a group", n.length_per_group);
    note("length a token", p.has_topk_length && !n.length_per_group);
    note("delta", p.has_delta);
    note("base e", p.lse_base == LseBase::e);
    note("fp32 d_kv", p.d_kv_type == DkvType::fp32);
    note("no queries", n.queries == 0);
    note("no keys", c.keys == 0);
    note("topk above keys", n.topk > *c.keys);
    note("batch", n.batch > 1);
    note("all dead", n.dead_share == 1);
    note("junk", n.junk_share > 0);
    note("holes", n.hole_share > 0);
    note("duplicates", n.duplicate_share > 0);
    note("sorted lists", n.sorted_lists);
    note("shared rows", n.lists == ListKind::neighbours && n.neighbour_share == 1);
    note("layout", c.layout != 0);
    note("poison", c.poison);
    note("forced block_h", c.flags.request.block_h.has_value());
    note("forced threads", c.flags.request.threads.has_value());
    note("tokens for every SM", n.batch * n.queries >= 132);
  }
  CHECK(kernels.size() <= 75);
  for (const auto& [what, drawn_once] : seen) {
    CAPTURE(what);
    CHECK(drawn_once);
  }
}

TEST_CASE("a drawn layout keeps rows apart, aligned and inside their buffers") {
  const Problem p = {.heads = 6, .kv_groups = 3, .has_topk_length = true, .has_delta = true};
  const HostTensors t = make_inputs(p, {.batch = 2, .queries = 5, .keys = 7, .topk = 9}, 1);
  bool moved = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Boxes boxes = boxes_of(p, t, drawn_layout(p, t, seed));
    for (const Box* box : {&boxes.q, &boxes.kv, &boxes.d_q, &boxes.d_kv, &boxes.lse, &boxes.topk_length}) {
      std::vector<std::uint16_t> values(static_cast<std::size_t>(box->rows() * box->columns));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i % 60000);
      Box of_16_bits = *box;
      of_16_bits.element_bytes = 2;
      bool intact = true;
      REQUIRE(taken<std::uint16_t>(of_16_bits, placed(of_16_bits, values), &intact) == values);
      REQUIRE(intact);
      std::vector<unsigned char> touched = placed(of_16_bits, values);
      touched.resize(touched.size() + 2, 0);  // a write behind the last row
      of_16_bits.placement.behind += 1;
      taken<std::uint16_t>(of_16_bits, touched, &intact);
      REQUIRE_FALSE(intact);
      if (box == &boxes.q) REQUIRE(box->offset(3) % 16 == 0);
    }
    moved = moved || !boxes.q.fills_buffer();
    REQUIRE(boxes.q.fills_buffer() == (seed == 0));
  }
  REQUIRE(moved);
}

TEST_CASE("random cases agree with the reference on the emulator") {
  require_host_compiler();
  for (const Arch& arch : {kHopper, Arch{80}}) {
    const int count = long_tests() ? 400 : 48;
    const FuzzReport report = fuzz_on_cpu(drawn(11, count, arch, cpu_fuzz_size()), arch);
    INFO(failures(report));
    REQUIRE(report.failures.empty());
    REQUIRE(report.cases == count);
  }
}

TEST_CASE("the fuzzer finds a causal mask that is off by one, and its command line reproduces it") {
  require_host_compiler();
  expect_found("lists.cuh", "s + args.query_offset + 1", "s + args.query_offset");
}

TEST_CASE("the fuzzer finds a topk_length that is not clamped, and its command line reproduces it") {
  require_host_compiler();
  expect_found("lists.cuh", "max(0, min(length, args.topk))", "max(0, length)");
}

TEST_CASE("the fuzzer finds a last step that loses an entry, and its command line reproduces it") {
  require_host_compiler();
  expect_found("lists.cuh", "position >= length", "position >= length - 1");
}

TEST_CASE("300 random cases agree with the reference", "[gpu]") {
  std::string why;
  if (!driver_available(&why)) SKIP("no GPU");
  ::setenv("SMLA_CACHE_DIR", SMLA_BINARY_DIR "/test-cache", 0);
  const DeviceProperties gpu = device_properties(0);
  const Arch arch = arch_of_device(gpu.compute_major, gpu.compute_minor);
  const int count = long_tests() ? 2000 : 300;
  const FuzzReport report = fuzz_on_gpu(drawn(1, count, arch, gpu_fuzz_size()), 0);
  INFO(failures(report));
  REQUIRE(report.failures.empty());
  REQUIRE(report.cases == count);
}
