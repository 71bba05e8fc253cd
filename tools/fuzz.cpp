#include "fuzz.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "driver/device.h"
#include "plan/order.h"
#include "plan/prepare_together.h"
#include "reference/parallel.h"
#include "reference/random.h"

namespace smla::core {
namespace {

constexpr std::size_t kMostFailures = 10;

// A sequence of draws of one key.
class Draw {
 public:
  explicit Draw(std::uint64_t key) : key_(key) {}
  std::int64_t below(std::int64_t count) { return random_below(key_, next_++, count); }
  bool with_chance(double share) { return random_uniform(key_, next_++) < share; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(std::ssize(values))];
  }
  // In [1, most], as likely to be small as to be large.
  std::int64_t length(std::int64_t most) {
    const double exponent = random_uniform(key_, next_++) * std::log2(static_cast<double>(most) + 1);
    return std::clamp<std::int64_t>(std::llround(std::exp2(exponent)), 1, most);
  }

 private:
  std::uint64_t key_;
  std::uint64_t next_ = 0;
};

template <class Rule>
bool is_allowed(const Rule& rule) {
  try {
    rule();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// `value` in `field` where the rules allow it.
template <class T>
void try_value(Problem& p, const Arch& arch, T Problem::*field, T value) {
  Problem changed = p;
  changed.*field = value;
  if (is_allowed([&] { choose_config(changed, arch); })) p = changed;
}

Problem draw_problem(Draw& draw, const FuzzSize& size, const Arch& arch) {
  Problem p;
  p.heads = static_cast<int>(1 + draw.below(size.most_heads));
  if (draw.with_chance(0.6)) {
    p.heads = draw.one_of({1, 8, 16, 24, 32, 40, 64, 64, 96, 127, 128, 128, 192});
    if (p.heads > size.most_heads && size.most_heads < 128) p.heads = size.most_heads;
  }
  std::vector<int> divisors;
  for (int g = 1; g <= p.heads; ++g) {
    if (p.heads % g == 0) divisors.push_back(g);
  }
  if (draw.with_chance(0.4))
    p.kv_groups = divisors[static_cast<std::size_t>(draw.below(std::ssize(divisors)))];
  p.d_tail = draw.one_of({64, 64, 0});
  p.dtype = draw.one_of({DType::bf16, DType::bf16, DType::fp16});
  p.causal = draw.with_chance(0.3);
  p.has_sink = draw.with_chance(0.4);
  p.lse_includes_sink = p.has_sink && draw.with_chance(0.5);
  p.has_topk_length = draw.with_chance(0.4);
  p.has_delta = draw.with_chance(0.3);
  p.lse_base = draw.one_of({LseBase::two, LseBase::e});
  p.d_kv_type = draw.one_of({DkvType::operand, DkvType::fp32});
  if (draw.with_chance(0.25)) try_value(p, arch, &Problem::deterministic, true);
  if (draw.with_chance(0.15)) try_value(p, arch, &Problem::accumulate, Accumulate::partial);
  return p;
}

// The most that is forced of what was drawn: all, or the schedule alone, or nothing.
ConfigRequest draw_request(Draw& draw, const Problem& problem, const Arch& arch) {
  const auto allowed = [&](const ConfigRequest& r) {
    return is_allowed([&] { choose_config(problem, arch, r); });
  };
  ConfigRequest r;
  const auto schedule = draw.one_of<std::optional<Schedule>>(
      {std::nullopt, std::nullopt, Schedule::cp_async, Schedule::wgmma, Schedule::wgmma_pair});
  const ConfigRequest scheduled = {.schedule = schedule};
  if (schedule && allowed(scheduled)) r = scheduled;
  ConfigRequest forced = r;
  if (draw.with_chance(0.3)) forced.block_h = draw.one_of({8, 16, 32, 64});
  if (draw.with_chance(0.3)) forced.block_size = draw.one_of({16, 32, 64});
  if (draw.with_chance(0.3)) forced.stages = draw.one_of({1, 2, 3});
  if (draw.with_chance(0.3)) forced.threads = draw.one_of({128, 256});
  return allowed(forced) ? forced : r;
}

void draw_lengths(Draw& draw, const Problem& p, const FuzzSize& size, CheckCase& c) {
  InputOptions& n = c.inputs;
  n.batch = draw.one_of({1, 1, 1, 2, 3});
  n.topk = draw.length(size.most_topk);
  c.keys = draw.with_chance(0.04) ? 0 : draw.length(size.most_keys);
  n.queries = draw.with_chance(0.04) ? 0 : draw.length(size.most_queries);
  n.topk = std::min(n.topk, std::max<std::int64_t>(1, size.most_work / (n.batch * p.heads)));
  n.queries = std::min(n.queries, std::max<std::int64_t>(1, size.most_work / (n.batch * p.heads * n.topk)));
  if (p.causal) n.query_offset = draw.one_of<std::int64_t>({0, *c.keys / 2, *c.keys, 100'000, -2});
}

void draw_lists(Draw& draw, const Problem& p, InputOptions& n) {
  n.lists = draw.one_of({ListKind::random, ListKind::random, ListKind::causal, ListKind::neighbours});
  if (n.lists == ListKind::neighbours) n.neighbour_share = draw.one_of({0.8, 1.0});  // 1: one list for all
  if (draw.with_chance(0.35)) n.junk_share = draw.one_of({0.02, 0.3});
  if (draw.with_chance(0.35)) n.hole_share = draw.one_of({0.02, 0.3, 0.95});
  if (draw.with_chance(0.35)) n.duplicate_share = draw.one_of({0.1, 1.0});
  if (draw.with_chance(0.35)) n.dead_share = draw.one_of({0.2, 0.2, 1.0});
  n.sorted_lists = draw.with_chance(0.25);
  n.length_per_group = p.has_topk_length && draw.with_chance(0.5);
}

void draw_values(Draw& draw, const Problem& p, InputOptions& n) {
  n.scale = draw.one_of({0.0F, 0.0F, 0.072F, 0.01F});
  n.q_rms = draw.one_of({1.0, 1.0, 4.0});
  n.kv_rms = draw.one_of({1.0, 1.0, 0.25});
  // In fp16 the dS of smaller d_o fall below its normal numbers; the accuracy table says how far.
  n.d_o_rms = p.dtype == DType::fp16 ? draw.one_of({8.0, 32.0}) : draw.one_of({1.0, 1e-3, 100.0});
  if (p.has_sink) n.sink_mean = draw.one_of({0.0, 4.0, -4.0});
}

OrderRequest draw_order(Draw& draw, const CheckCase& c, const Arch& arch) {
  const OrderRequest order = draw.one_of(
      {OrderRequest::automatic, OrderRequest::callers, OrderRequest::sorted, OrderRequest::sorted_throttled});
  const Lengths lengths = {c.inputs.batch, c.inputs.queries, *c.keys, c.inputs.topk};
  const DeviceFacts hopper = {
      .multiprocessors = 132, .ctas_in_flight = 132, .sort_shared_limit = shared_memory_limit(arch)};
  const bool possible = is_allowed([&] {
    const Config config = choose_config(c.flags.problem, arch, c.flags.request).config;
    choose_order(c.flags.problem, config, lengths, hopper, order);
  });
  return possible ? order : OrderRequest::automatic;
}

std::vector<std::pair<Problem, ConfigRequest>> kernels_of(const std::vector<CheckCase>& cases) {
  std::vector<std::pair<Problem, ConfigRequest>> all;
  for (const CheckCase& c : cases) {
    const std::pair<Problem, ConfigRequest> one = {c.flags.problem, c.flags.request};
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
  return all;
}

FuzzReport fuzz(const std::vector<CheckCase>& cases, const std::string& place,
                const std::function<CheckResult(const CheckCase&)>& run, const FuzzTrace& trace) {
  FuzzReport report;
  report.problems = static_cast<int>(kernels_of(cases).size());
  for (const CheckCase& c : cases) {
    const int number = report.cases++;
    const std::string command = fmt::format("smla-check {} {}", place, flags_of(c));
    if (trace) trace(number, command);
    try {
      const CheckResult result = run(c);
      if (!result.passed()) report.failures.push_back({number, command, describe(c, result)});
    } catch (const Error& error) {
      report.failures.push_back({number, command, error.what()});
      if (error.status() == Status::cuda_error) break;
    }
    if (report.failures.size() == kMostFailures) break;
  }
  return report;
}

}  // namespace

FuzzSize gpu_fuzz_size() {
  return {};
}

FuzzSize cpu_fuzz_size() {
  return {.cases_a_problem = 4,
          .most_heads = 64,
          .most_queries = 20,
          .most_keys = 200,
          .most_topk = 150,
          .most_work = 12000};
}

CheckCase fuzz_case(std::uint64_t seed, int number, const Arch& arch, const FuzzSize& size) {
  const auto key = [seed](std::uint64_t kind, int which) {
    return random_bits(random_bits(seed, kind), static_cast<std::uint64_t>(which));
  };
  CheckCase c;
  Draw of_problem(key(1, number / size.cases_a_problem));
  c.flags.problem = draw_problem(of_problem, size, arch);
  c.flags.request = draw_request(of_problem, c.flags.problem, arch);
  Draw draw(key(2, number));
  draw_lengths(draw, c.flags.problem, size, c);
  draw_lists(draw, c.flags.problem, c.inputs);
  draw_values(draw, c.flags.problem, c.inputs);
  c.order = draw_order(draw, c, arch);
  c.layout = draw.with_chance(0.5) ? static_cast<std::uint64_t>(1 + draw.below(1000)) : 0;
  c.poison = draw.with_chance(0.4);
  c.seed = static_cast<std::uint64_t>(1 + draw.below(1'000'000));
  return c;
}

FuzzReport fuzz_on_cpu(const std::vector<CheckCase>& cases, const Arch& arch, const FuzzTrace& trace) {
  const auto wanted = kernels_of(cases);
  std::vector<CpuKernels> compiled(wanted.size());
  parallel_for(std::ssize(wanted), [&](std::int64_t i) {
    const auto& [problem, request] = wanted[static_cast<std::size_t>(i)];
    compiled[static_cast<std::size_t>(i)] = cpu_kernels({problem, request}, arch);
  });
  const auto kernels = [&](const CheckCase& c) -> const CpuKernels& {
    const std::pair<Problem, ConfigRequest> one = {c.flags.problem, c.flags.request};
    return compiled[static_cast<std::size_t>(std::find(wanted.begin(), wanted.end(), one) - wanted.begin())];
  };
  const std::string place = "--on cpu --arch " + name(arch);
  return fuzz(
      cases, place, [&](const CheckCase& c) { return check_on_cpu(c, kernels(c), {}); }, trace);
}

FuzzReport fuzz_on_gpu(const std::vector<CheckCase>& cases, int device, const FuzzTrace& trace) {
  const DeviceProperties properties = device_properties(device);
  prepare_together(kernels_of(cases), arch_of_device(properties.compute_major, properties.compute_minor));
  return fuzz(
      cases, "--on gpu", [&](const CheckCase& c) { return check_on_gpu(c, device); }, trace);
}

}  // namespace smla::core
