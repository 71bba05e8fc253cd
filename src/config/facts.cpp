#include "config/facts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "config/cp_async.h"
#include "config/wgmma.h"
#include "config/wgmma_pair.h"

namespace smla::core {
namespace {

constexpr int kTriedHeads = 1024;         // beyond, a rule that holds for every multiple of 64 or 128 goes on
constexpr int kUsualHeads[] = {64, 128};  // of the problems in which other fields are tried

// Values that are tried of each number a person may give.
std::vector<int> tried(int first, int last, int step) {
  std::vector<int> values;
  for (int value = first; value <= last; value += step) values.push_back(value);
  return values;
}

bool works(const Problem& problem, const Arch& arch, const ConfigRequest& request) {
  try {
    choose_config(problem, arch, request);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// On any arch.
bool works_somewhere(const Problem& problem, const ConfigRequest& request) {
  const std::vector<Arch> archs = known_archs();
  return std::any_of(archs.begin(), archs.end(),
                     [&](const Arch& arch) { return works(problem, arch, request); });
}

// A schedule's answers.
struct Asked {
  Schedule schedule;

  bool problem(const Problem& p) const { return works_somewhere(p, {.schedule = schedule}); }

  // The same for a problem whose heads are left open.
  bool problem_of_some_heads(Problem p) const {
    for (const int heads : kUsualHeads) {
      p.heads = heads;
      if (problem(p)) return true;
    }
    return false;
  }

  std::vector<int> heads() const {
    std::vector<int> good;
    for (const int value : tried(1, kTriedHeads, 1)) {
      if (problem({.heads = value})) good.push_back(value);
    }
    return good;
  }

  // Values of another field.
  template <class T>
  std::vector<T> of(T Problem::*field, const std::vector<T>& values) const {
    std::vector<T> good;
    for (const T value : values) {
      Problem p;
      p.*field = value;
      if (problem_of_some_heads(p)) good.push_back(value);
    }
    return good;
  }

  // Values that can be forced, for any number of heads.
  std::vector<int> forced(std::optional<int> ConfigRequest::*field, const std::vector<int>& values) const {
    std::vector<int> good;
    for (const int value : values) {
      ConfigRequest request{.schedule = schedule};
      request.*field = value;
      const bool any = works_somewhere({.heads = 16}, request) || works_somewhere({.heads = 64}, request) ||
                       works_somewhere({.heads = 128}, request);
      if (any) good.push_back(value);
    }
    return good;
  }

  // "any divisor of the heads", or what a divisor has to leave.
  std::string kv_groups() const {
    bool any = true, by_group = true;
    for (int heads = 1; heads <= 192; heads += heads < 128 ? 1 : 64) {
      for (int groups = 1; groups <= heads; ++groups) {
        if (heads % groups != 0) continue;
        const bool good = problem({.heads = heads, .kv_groups = groups});
        any = any && good == problem({.heads = heads});
        by_group = by_group && good == (problem({.heads = heads / groups}) && works_in_any({.heads = heads}));
      }
    }
    if (any) return "any divisor of heads";
    return by_group ? "divisors of heads that leave such a number a group" : "some divisors of heads";
  }

  std::string archs() const {
    const std::vector<Arch> all = known_archs();
    std::vector<std::string> names;
    std::size_t last_refusal = 0;
    bool refused = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool any = std::any_of(std::begin(kUsualHeads), std::end(kUsualHeads), [&](int heads) {
        return works({.heads = heads}, all[i], {.schedule = schedule});
      });
      if (any) {
        names.push_back(name(all[i]));
      } else {
        refused = true;
        last_refusal = i;
      }
    }
    const bool all_later = !names.empty() && (!refused || (last_refusal + 1 + names.size() == all.size()));
    if (all_later && names.size() > 1) return names.front() + " and later";
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  }

  std::string options() const {
    const std::vector<std::pair<std::string_view, Problem>> all = {
        {"causal", {.causal = true}},
        {"attn_sink", {.has_sink = true}},
        {"lse with the sink", {.has_sink = true, .lse_includes_sink = true}},
        {"lse in base e", {.lse_base = LseBase::e}},
        {"topk_length", {.has_topk_length = true}},
        {"delta", {.has_delta = true}},
        {"fp32 d_kv", {.d_kv_type = DkvType::fp32}},
        {"accumulate = partial", {.accumulate = Accumulate::partial}},
        {"deterministic", {.deterministic = true}}};
    std::vector<std::string_view> good;
    for (const auto& [option, p] : all) {
      if (problem_of_some_heads(p)) good.push_back(option);
    }
    return fmt::format("{}", fmt::join(good, ", "));
  }

 private:
  // By this schedule or another: what a problem itself allows.
  static bool works_in_any(const Problem& p) { return works_somewhere(p, {}); }
};

template <class T>
std::string names_of(const std::vector<T>& values) {
  std::vector<std::string_view> names;
  for (const T value : values) names.push_back(name(value));
  return fmt::format("{}", fmt::join(names, ", "));
}

ScheduleFacts facts_of(Schedule schedule, std::string_view note) {
  const Asked asked{schedule};
  const std::vector<int> columns = tried(0, 1024, 16);
  return {.schedule = schedule,
          .facts = {{"archs", asked.archs()},
                    {"heads", in_words(asked.heads(), kTriedHeads)},
                    {"kv_groups", asked.kv_groups()},
                    {"d_v", in_words(asked.of(&Problem::d_v, columns), 1024)},
                    {"d_tail", in_words(asked.of(&Problem::d_tail, columns), 1024)},
                    {"dtypes", names_of(asked.of(&Problem::dtype, {DType::bf16, DType::fp16}))},
                    {"options", asked.options()},
                    {"block_h", in_words(asked.forced(&ConfigRequest::block_h, tried(8, 256, 8)), 256)},
                    {"block_size", in_words(asked.forced(&ConfigRequest::block_size, tried(8, 256, 8)), 256)},
                    {"stages", in_words(asked.forced(&ConfigRequest::stages, tried(1, 16, 1)), 16)},
                    {"threads", in_words(asked.forced(&ConfigRequest::threads, tried(32, 1024, 32)), 1024)}},
          .note = std::string(note)};
}

}  // namespace

std::string in_words(const std::vector<int>& values, int limit) {
  constexpr std::size_t kRun = 4;  // numbers that are worth "to"
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i + 1;  // behind the last of the longest progression from here
    const int step = end < values.size() ? values[end] - values[i] : 0;
    while (end < values.size() && values[end] - values[end - 1] == step) ++end;
    const bool goes_on = step > 1 && values[end - 1] + step > limit && values[i] % step == 0;
    if (end - i >= kRun && step == 1) {
      parts.push_back(fmt::format("{} to {}", values[i], values[end - 1]));
    } else if (end - i >= kRun && goes_on) {
      parts.push_back(values[i] == step ? fmt::format("multiples of {}", step)
                                        : fmt::format("multiples of {} from {}", step, values[i]));
    } else {
      end = i + 1;
      parts.push_back(fmt::format("{}", values[i]));
    }
    i = end;
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<ScheduleFacts> schedule_facts() {
  return {facts_of(Schedule::cp_async, kCpAsyncNote), facts_of(Schedule::wgmma, kWgmmaNote),
          facts_of(Schedule::wgmma_pair, kWgmmaPairNote)};
}

}  // namespace smla::core
