// smla-gen: shows what would run for a shape: the CUDA text, its PTX, cubin, machine code and resources.
// Needs no GPU.
#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "compile_time.h"
#include "compiler/compiler.h"
#include "config/arch.h"
#include "config/config.h"
#include "config/facts.h"
#include "disassembler.h"
#include "generator/generator.h"
#include "json_report.h"
#include "plan/prepare.h"
#include "problem_flags.h"
#include "tool.h"

using namespace smla::core;

namespace {

enum class Emit { source, ptx, cubin, sass, report };

struct Options {
  ProblemFlags flags;
  std::string arch = "sm_90a";
  std::string out = "-";
  Emit emit = Emit::source;
  bool json = false;
  bool list = false;
  bool markdown = false;
};

constexpr const char* kExamples =
    "  smla-gen --heads 64 --out backward.cu          the kernels of DeepSeek-V3.2, to read\n"
    "  smla-gen --heads 128 --emit report             registers, spills, shared memory\n"
    "  smla-gen --heads 16 --arch sm_80 --json        choices and resources for a program\n"
    "  smla-gen --heads 64 --emit sass | less         machine code\n"
    "  smla-gen --list                                the schedules and what each supports\n";

Emit parse_emit(const std::string& text) {
  if (text == "source") return Emit::source;
  if (text == "ptx") return Emit::ptx;
  if (text == "cubin") return Emit::cubin;
  if (text == "sass") return Emit::sass;
  if (text == "report") return Emit::report;
  fail(Status::invalid_argument,
       "--emit = \"{}\" is not known; known are source, ptx, cubin, sass and report", text);
}

std::string schedules_text() {
  std::string text;
  for (const ScheduleFacts& schedule : schedule_facts()) {
    text += fmt::format("{}\n", name(schedule.schedule));
    for (const Fact& fact : schedule.facts) text += fmt::format("  {:<11} {}\n", fact.field, fact.values);
    text += fmt::format("  {}\n", schedule.note);
  }
  return text;
}

// A row a fact, a column a schedule: the README's.
std::string schedules_markdown() {
  const std::vector<ScheduleFacts> schedules = schedule_facts();
  std::string text = "| schedule |", line = "|---|";
  for (const ScheduleFacts& schedule : schedules) {
    text += fmt::format(" `{}` |", name(schedule.schedule));
    line += "---|";
  }
  text += "\n" + line + "\n";
  for (std::size_t row = 0; row < schedules.front().facts.size(); ++row) {
    text += fmt::format("| `{}` |", schedules.front().facts[row].field);
    for (const ScheduleFacts& schedule : schedules) text += fmt::format(" {} |", schedule.facts[row].values);
    text += "\n";
  }
  return text;
}

std::string list_schedules(const Options& options) {
  if (options.markdown) return schedules_markdown();
  if (!options.json) return schedules_text();
  Json schedules = Json::array();
  for (const ScheduleFacts& schedule : schedule_facts()) schedules.push_back(schedule_json(schedule));
  return printed({{"schedules", schedules}});
}

std::string report_text(const Choice& choice, const KernelSource& source, const Cubin& cubin,
                        const CacheKey& key) {
  std::int64_t code_bytes = 0;
  for (const KernelResources& r : cubin.kernels) code_bytes += r.code_bytes;
  std::string text = fmt::format("{} for {}\n", source.name, cubin.arch);
  text += fmt::format("compiled by {} in {}, {} bytes of machine code, key {}\n\n", cubin.compiler,
                      compile_time(cubin.compile_seconds, cubin.compile_cpu_seconds), code_bytes, key.hash());
  text += kernels_text(source, cubin) + "\nwhy\n";
  for (const std::string& sentence : choice.why) text += fmt::format("  {}\n", sentence);
  return text;
}

Json report_json(const Options& options, const Choice& choice, const KernelSource& source, const Cubin& cubin,
                 const CacheKey& key) {
  return {{"problem", options.flags.problem},
          {"config", choice.config},
          {"why", choice.why},
          {"kernels", kernels_json(source.kernels, cubin)},
          {"arch", cubin.arch},
          {"name", source.name},
          {"key", key.hash()},
          {"compiler", cubin.compiler},
          {"compile_seconds", cubin.compile_seconds},
          {"compile_cpu_seconds", cubin.compile_cpu_seconds}};
}

void refuse_binary_on_terminal(const Options& options) {
  if (options.emit == Emit::cubin && options.out == "-" && !options.json && ::isatty(STDOUT_FILENO) != 0) {
    stop(ExitCode::usage, "a cubin is binary and stdout is a terminal; name a file with --out");
  }
}

ExitCode generate_and_emit(const Options& options) {
  if (options.list) {
    write_answer(options.out, list_schedules(options));
    return ExitCode::ok;
  }
  if (options.flags.problem.heads == 0) {
    stop(ExitCode::usage, "--heads is missing: the number of query heads, such as --heads 64");
  }
  if (options.json && options.emit != Emit::source && options.emit != Emit::report && options.out == "-") {
    stop(ExitCode::usage, "--json answers on stdout; name a file for the other output with --out");
  }
  refuse_binary_on_terminal(options);
  if (options.emit == Emit::sass) find_disassembler();  // before seconds of compiling

  const Arch arch = parse_arch(options.arch);
  validate(options.flags.problem);
  const Choice choice = choose_config(options.flags.problem, arch, options.flags.request);
  const KernelSource source = generate(options.flags.problem, choice.config);

  std::optional<Cubin> cubin;
  std::optional<CacheKey> key;
  if (options.json || (options.emit != Emit::source && options.emit != Emit::ptx)) {
    cubin = compile(source, arch, failure_directory(cache_directories()));
    key = cache_key(source, arch, compiler_version().identity());
    fmt::print(stderr, "smla-gen: compiled {} for {} in {} by {}\n", source.name, cubin->arch,
               compile_time(cubin->compile_seconds, cubin->compile_cpu_seconds), cubin->compiler);
  }
  std::string text;
  switch (options.emit) {
    case Emit::source:
      text = source.text();
      break;
    case Emit::ptx:
      text = compile_to_ptx(source, arch, failure_directory(cache_directories()));
      break;
    case Emit::cubin:
      text.assign(cubin->image.begin(), cubin->image.end());
      break;
    case Emit::sass:
      text = disassemble(*cubin);
      break;
    case Emit::report:
      text = report_text(choice, source, *cubin, *key);
      break;
  }
  if (!options.json || options.out != "-") write_answer(options.out, text);
  if (options.json) print_answer(printed(report_json(options, choice, source, *cubin, *key)));
  return ExitCode::ok;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Generates the sparse-MLA backward for a shape and shows it. Needs no GPU.", "smla-gen");
  Options options;
  add_problem_flags(app, options.flags);
  app.add_option("--arch", options.arch, "GPU architecture to compile for")->capture_default_str();
  app.add_option_function<std::string>(
         "--emit", [&](const std::string& text) { options.emit = parse_emit(text); }, "What to write")
      ->type_name("source|ptx|cubin|sass|report")
      ->default_str("source");
  app.add_option("--out", options.out, "File to write instead of stdout (-)")->type_name("FILE");
  app.add_flag("--json", options.json, "Compile, and print choices and resources as one JSON object");
  CLI::Option* list = app.add_flag("--list", options.list, "Name the schedules and what each supports");
  app.add_flag("--markdown", options.markdown, "With --list: as the table in README.md")->needs(list);
  describe_tool(app, kExamples,
                {ExitCode::internal, ExitCode::usage, ExitCode::not_supported, ExitCode::no_compiler,
                 ExitCode::compile_failed, ExitCode::no_disassembler, ExitCode::output});
  return run_tool(app, argc, argv, [&] { return generate_and_emit(options); });
}
