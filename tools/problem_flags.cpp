#include "problem_flags.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "base/error.h"

namespace smla::core {
namespace {

// The value among `values` whose name is `text`.
template <class T>
T parse_word(std::string_view flag, std::string_view text, const std::array<T, 2>& values) {
  for (const T value : values) {
    if (name(value) == text) return value;
  }
  fail(Status::invalid_argument, "{} = \"{}\" is not known; known are {} and {}", flag, text, name(values[0]),
       name(values[1]));
}

template <class T>
void add_word(CLI::App& app, const std::string& flag, T& target, const std::array<T, 2>& values,
              const std::string& description, const std::string& group) {
  app.add_option_function<std::string>(
         flag, [flag, &target, values](const std::string& text) { target = parse_word(flag, text, values); },
         description)
      ->type_name(fmt::format("{}|{}", name(values[0]), name(values[1])))
      ->default_str(std::string(name(target)))
      ->group(group);
}

// The tools take heads = 0 for "not given".
std::string refuse_zero(const std::string& text) {
  int value = 1;
  const bool is_number = CLI::detail::lexical_cast(text, value);
  return is_number && !text.empty() && value == 0 ? "heads = 0 must be at least 1" : "";
}

}  // namespace

void add_problem_flags(CLI::App& app, ProblemFlags& flags) {
  const std::string what = "What is computed", how = "How it is computed (chosen when not given)";
  Problem& p = flags.problem;
  app.add_option("--heads", p.heads, "Query heads: 1 to 128, and multiples of 64 above")
      ->check(CLI::Validator(refuse_zero, ""))
      ->group(what);
  app.add_option("--kv-groups", p.kv_groups, "Groups of kv heads, a divisor of --heads")
      ->capture_default_str()
      ->group(what);
  app.add_option("--d-v", p.d_v, "Columns of V")->capture_default_str()->group(what);
  app.add_option("--d-tail", p.d_tail, "Columns of K after V's: 64, or 0 where rope lies inside")
      ->capture_default_str()
      ->group(what);
  add_word(app, "--dtype", p.dtype, std::array{DType::bf16, DType::fp16}, "Type of the operands", what);
  app.add_flag("--causal", p.causal, "An entry counts only up to its own token")->group(what);
  app.add_flag("--sink", p.has_sink, "attn_sink, one more logit a head; adds d_sink")->group(what);
  app.add_flag("--lse-includes-sink", p.lse_includes_sink, "The saved lse has the sink in it")->group(what);
  add_word(app, "--lse-base", p.lse_base, std::array{LseBase::two, LseBase::e}, "Base of the saved lse",
           what);
  app.add_flag("--topk-length", p.has_topk_length, "Lists have a length each")->group(what);
  app.add_flag("--delta", p.has_delta, "The caller brings delta")->group(what);
  add_word(app, "--d-kv-type", p.d_kv_type, std::array{DkvType::operand, DkvType::fp32}, "Type of d_kv",
           what);
  add_word(app, "--accumulate", p.accumulate, std::array{Accumulate::fp32, Accumulate::partial},
           "How d_kv is summed over tokens: fp32, or fp16 in groups (sm_90a, bf16, up to 16384 rows)", what);
  app.add_flag("--deterministic", p.deterministic, "The same bits in every run: d_kv is summed in integers")
      ->group(what);

  ConfigRequest& r = flags.request;
  app.add_option_function<std::string>(
         "--schedule",
         [&r](const std::string& text) {
           if (text == "auto") {
             r.schedule.reset();
           } else {
             r.schedule = parse_schedule(text);
           }
         },
         "Structure of the kernels; smla-gen --list describes them")
      ->type_name("auto|cp_async|wgmma|wgmma_pair")
      ->default_str("auto")
      ->group(how);
  app.add_option("--block-h", r.block_h, "Heads a CTA")->group(how);
  app.add_option("--block-size", r.block_size, "kv rows a step")->group(how);
  app.add_option("--stages", r.stages, "Buffers of kv rows")->group(how);
  app.add_option("--threads", r.threads, "Threads a CTA")->group(how);
}

}  // namespace smla::core
