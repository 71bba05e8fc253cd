// The line that an error message offers is one that smla-prewarm takes, and means the same kernel.
#include <string>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "config/config.h"
#include "plan/json.h"
#include "plan/manifest.h"
#include "prewarm_options.h"

using namespace smla::core;

namespace {

using Json = nlohmann::ordered_json;

PrewarmOptions parsed(const std::string& line) {
  CLI::App app("", "smla-prewarm");
  PrewarmOptions options;
  add_prewarm_flags(app, options);
  const std::string program = "smla-prewarm ";
  REQUIRE(line.rfind(program, 0) == 0);
  app.parse(line.substr(program.size()));
  return options;
}

// Another value of each field that is not a flag.
Json other_value(const std::string& field, const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  const Json others = {{"heads", 128},        {"kv_groups", 2},         {"d_v", 256},
                       {"d_tail", 0},         {"dtype", "fp16"},        {"lse_base", "e"},
                       {"d_kv_type", "fp32"}, {"accumulate", "partial"}};
  INFO("a new field of Problem needs another value here: " << field);
  REQUIRE(others.contains(field));
  REQUIRE(others[field] != value);
  return others[field];
}

bool is_valid(const Problem& problem) {
  try {
    validate(problem);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check(const Problem& problem, const Config& config, const Arch& arch) {
  const std::string line = prewarm_line(problem, config, arch);
  CAPTURE(line);
  const PrewarmOptions options = parsed(line);
  CHECK(options.flags.problem == problem);
  CHECK(options.archs == std::vector<std::string>{name(arch)});
  const Manifest kernels = wanted_kernels(options);
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].arch == arch);
  CHECK(choose_config(kernels[0].problem, kernels[0].arch, kernels[0].request).config == config);
}

}  // namespace

TEST_CASE("every field of a problem survives the way through the prewarm line") {
  int checked = 0;
  const Problem bases[] = {{.heads = 64}, {.heads = 64, .has_sink = true}};
  for (const Problem& base : bases) {
    check(base, choose_config(base, {90, true}).config, {90, true});
    const Json fields = base;
    for (const auto& [field, value] : fields.items()) {
      CAPTURE(field);
      Json changed = fields;
      changed[field] = other_value(field, value);
      const auto problem = changed.get<Problem>();
      REQUIRE_FALSE(problem == base);
      if (!is_valid(problem)) continue;  // of a value that no schedule computes yet: no message offers a line
      check(problem, choose_config(problem, {90, true}).config, {90, true});
      ++checked;
    }
  }
  CHECK(checked >= 20);  // 11 fields have two values that work, of which lse_includes_sink needs a sink
}

TEST_CASE("a forced config survives the way through the prewarm line, on every arch") {
  const Problem problem = {.heads = 64, .d_tail = 0, .causal = true};
  for (const Arch& arch : {Arch{80, false}, Arch{90, true}, Arch{120, false}}) {
    const Config chosen = choose_config(problem, arch).config;
    check(problem, chosen, arch);
    const Config forced =
        choose_config(problem, arch, {.schedule = Schedule::cp_async, .block_h = 16, .threads = 256}).config;
    REQUIRE(forced != chosen);
    check(problem, forced, arch);
  }
}
