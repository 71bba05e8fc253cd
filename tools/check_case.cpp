#include "check_case.h"

#include <fmt/format.h>

#include "call_flags.h"
#include "plan/manifest.h"

namespace smla::core {

void add_case_flags(CLI::App& app, CheckCase& c) {
  add_problem_flags(app, c.flags);
  add_call_flags(app, c.inputs, c.keys, "512", c.order);
  const std::string inputs = "Inputs";
  const auto number = [&](const char* flag, auto& target, const char* description) {
    app.add_option(flag, target, description)->capture_default_str()->group(inputs);
  };
  number("--q-rms", c.inputs.q_rms, "Root of the mean square of q");
  number("--kv-rms", c.inputs.kv_rms, "... of kv");
  number("--d-o-rms", c.inputs.d_o_rms, "... of d_o");
  number("--sink-mean", c.inputs.sink_mean, "With --sink: the mean of the sinks, whose deviation is 1");
  number("--layout", c.layout,
         "Seed that draws an order of dimensions, gaps and an offset for every tensor; 0: contiguous");
  app.add_flag("--poison", c.poison,
               "NaN in rows of kv that no entry names, and in o and lse of tokens whose list is empty")
      ->group(inputs);
  number("--seed", c.seed, "Of the inputs, and of the order of execution on the CPU");
}

std::string flags_of(const CheckCase& c) {
  const CheckCase defaults;
  std::string text = problem_flags(c.flags.problem);
  const auto add = [&text](const char* flag, const auto& value, const auto& usual) {
    if (value != usual) text += fmt::format(" {} {}", flag, value);
  };
  const auto add_word = [&text](const char* flag, bool given) {
    if (given) text += fmt::format(" {}", flag);
  };
  const ConfigRequest& r = c.flags.request;
  if (r.schedule) text += fmt::format(" --schedule {}", name(*r.schedule));
  if (r.block_h) text += fmt::format(" --block-h {}", *r.block_h);
  if (r.block_size) text += fmt::format(" --block-size {}", *r.block_size);
  if (r.stages) text += fmt::format(" --stages {}", *r.stages);
  if (r.threads) text += fmt::format(" --threads {}", *r.threads);
  const InputOptions &n = c.inputs, &usual = defaults.inputs;
  add("--batch", n.batch, usual.batch);
  add("--queries", n.queries, usual.queries);
  if (c.keys) text += fmt::format(" --keys {}", *c.keys);
  add("--topk", n.topk, usual.topk);
  add("--scale", n.scale, usual.scale);
  add("--query-offset", n.query_offset, usual.query_offset);
  add("--lists", name(n.lists), name(usual.lists));
  if (!n.list_file.empty()) text += fmt::format(" --list-file '{}'", n.list_file);
  add("--neighbour-share", n.neighbour_share, usual.neighbour_share);
  add("--junk-share", n.junk_share, usual.junk_share);
  add("--hole-share", n.hole_share, usual.hole_share);
  add("--duplicate-share", n.duplicate_share, usual.duplicate_share);
  add("--dead-share", n.dead_share, usual.dead_share);
  add_word("--sorted-lists", n.sorted_lists);
  add_word("--length-per-group", n.length_per_group);
  add("--order", name(c.order), name(defaults.order));
  add("--q-rms", n.q_rms, usual.q_rms);
  add("--kv-rms", n.kv_rms, usual.kv_rms);
  add("--d-o-rms", n.d_o_rms, usual.d_o_rms);
  add("--sink-mean", n.sink_mean, usual.sink_mean);
  add("--layout", c.layout, defaults.layout);
  add_word("--poison", c.poison);
  add("--seed", c.seed, defaults.seed);
  return text;
}

}  // namespace smla::core
