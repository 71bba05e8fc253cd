// smla-cache: looks into the caches of compiled kernels, explains a miss and makes room.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer.h"
#include "cache/inventory.h"
#include "compiler/compiler.h"
#include "config/arch.h"
#include "config/config.h"
#include "generator/generator.h"
#include "json_report.h"
#include "plan/prepare.h"
#include "problem_flags.h"
#include "tool.h"

using namespace smla::core;

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string dir;
  bool json = false;
  std::string entry;  // extract
  std::string out = "-";
  std::string what = "cubin";
  ProblemFlags flags;  // why-miss
  std::string arch = "sm_90a";
  std::optional<std::uint64_t> max_bytes;  // trim
};

constexpr const char* kExamples =
    "  smla-cache list                                    what is there\n"
    "  smla-cache verify --dir /opt/smla                  a directory that is to be shipped\n"
    "  smla-cache extract sparse-mla-bwd-h64 --out k.cubin\n"
    "  smla-cache why-miss --heads 64 --causal            why a kernel would be compiled\n"
    "  smla-cache trim --max-bytes 100M                   least recently used first\n";

// The directory on the command line alone, else the tiers that a program would use.
CacheDirectories directories(const Options& options) {
  if (options.dir.empty()) return cache_directories();
  std::error_code ignored;
  if (!fs::is_directory(options.dir, ignored))
    stop(ExitCode::usage, "--dir = {} is no directory", options.dir);
  CacheDirectories named;
  named.user = options.dir;
  return named;
}

fs::path user_directory(const CacheDirectories& tiers) {
  if (!tiers.user) stop(ExitCode::cache, "there is no cache directory: {}", tiers.user_reason);
  return *tiers.user;
}

// A directory that is closed to this user would look like an empty one.
void require_access(const fs::path& directory, int mode, const char* what) {
  if (::access(directory.c_str(), mode) != 0) {
    stop(ExitCode::cache, "{} cannot be {}: {}", directory.string(), what, std::strerror(errno));
  }
}

std::vector<fs::path> present(const CacheDirectories& tiers) {
  std::vector<fs::path> found;
  if (tiers.system) found.push_back(*tiers.system);
  if (tiers.user) found.push_back(*tiers.user);
  for (const fs::path& directory : found) require_access(directory, R_OK | X_OK, "read");
  return found;
}

std::string utc(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

ExitCode print_path(const Options& options) {
  const CacheDirectories tiers = directories(options);
  if (options.json) {
    print_answer(printed({{"user", tiers.user ? Json(tiers.user->string()) : Json()},
                          {"system", tiers.system ? Json(tiers.system->string()) : Json()},
                          {"user_reason", tiers.user_reason},
                          {"max_bytes", tiers.max_bytes}}));
  } else {
    print_answer(user_directory(tiers).string() + "\n");
  }
  return ExitCode::ok;
}

Json listing_json(const CacheListing& l) {
  const Cubin& cubin = l.entry.cubin;
  return {{"file", l.path.string()},
          {"bytes", l.bytes},
          {"last_use", utc(l.last_use)},
          {"arch", cubin.arch},
          {"compiler", cubin.compiler},
          {"compile_seconds", cubin.compile_seconds},
          {"compile_cpu_seconds", cubin.compile_cpu_seconds},
          {"key", l.entry.key.text},
          {"fault", l.fault.empty() ? Json() : Json(l.fault)}};
}

std::string listing_text(const CacheListing& l) {
  if (!l.fault.empty())
    return fmt::format("{:>10}  {}  {}\n", l.bytes, utc(l.last_use), l.fault);  // which names the file
  return fmt::format("{:>10}  {}  {:<12}  {}\n", l.bytes, utc(l.last_use), l.entry.cubin.compiler,
                     l.path.filename().string());
}

ExitCode list(const Options& options) {
  Json entries = Json::array();
  std::string text;
  for (const fs::path& directory : present(directories(options))) {
    if (!options.json) text += directory.string() + "\n";
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    for (const CacheListing& listing : list_entries(directory)) {
      ++count;
      bytes += listing.bytes;
      if (options.json) {
        entries.push_back(listing_json(listing));
      } else {
        text += listing_text(listing);
      }
    }
    if (!options.json) text += fmt::format("{:>10}  bytes in {} entries\n", bytes, count);
  }
  print_answer(options.json ? printed({{"entries", entries}}) : text);
  return ExitCode::ok;
}

ExitCode verify(const Options& options) {
  Json entries = Json::array();
  std::string text;
  std::size_t faults = 0, whole = 0;
  for (const fs::path& directory : present(directories(options))) {
    for (const CacheVerdict& verdict : verify_entries(directory)) {
      (verdict.fault.empty() ? whole : faults) += 1;
      entries.push_back(
          {{"file", verdict.path.string()}, {"fault", verdict.fault.empty() ? Json() : Json(verdict.fault)}});
      if (!verdict.fault.empty()) text += verdict.fault + "\n";  // names the file
    }
  }
  text += fmt::format("{} whole, {} damaged\n", whole, faults);
  print_answer(options.json ? printed({{"whole", whole}, {"damaged", faults}, {"entries", entries}}) : text);
  return faults == 0 ? ExitCode::ok : ExitCode::cache;
}

// The one entry that `text` names: a path, a file name or its beginning.
fs::path find_entry(const CacheDirectories& tiers, const std::string& text) {
  std::error_code ignored;
  if (fs::is_regular_file(text, ignored)) return text;
  std::vector<fs::path> found;
  for (const fs::path& directory : present(tiers)) {
    for (const CacheListing& listing : list_entries(directory)) {
      const std::string name = listing.path.filename().string();
      if (name == text) return listing.path;
      if (name.rfind(text, 0) == 0) found.push_back(listing.path);
    }
  }
  if (found.empty()) stop(ExitCode::cache, "no entry begins with \"{}\"; smla-cache list names them", text);
  if (found.size() > 1) {
    std::string names;
    for (const fs::path& path : found) names += "\n  " + path.filename().string();
    stop(ExitCode::usage, "{} entries begin with \"{}\":{}", found.size(), text, names);
  }
  return found.front();
}

CacheEntry read_whole(const fs::path& file) {
  try {
    return read_entry(file);
  } catch (const Error& error) {
    throw ToolError(ExitCode::cache, error.what());
  }
}

ExitCode extract(const Options& options) {
  const CacheEntry entry = read_whole(find_entry(directories(options), options.entry));
  if (options.what == "cubin") {
    if (options.out == "-" && ::isatty(STDOUT_FILENO) != 0) {
      stop(ExitCode::usage, "a cubin is binary and stdout is a terminal; name a file with --out");
    }
    write_answer(options.out, {entry.cubin.image.data(), entry.cubin.image.size()});
  } else {
    write_answer(options.out, options.what == "key" ? entry.key.text : entry.cubin.log);
  }
  return ExitCode::ok;
}

ExitCode why_miss(const Options& options) {
  const Problem& problem = options.flags.problem;
  if (problem.heads == 0)
    stop(ExitCode::usage, "--heads is missing: the number of query heads, such as --heads 64");
  validate(problem);
  const Arch arch = parse_arch(options.arch);
  const KernelSource source = generate(problem, choose_config(problem, arch, options.flags.request).config);
  const CacheKey key = cache_key(source, arch, compiler_version().identity());
  const MissExplanation explanation = explain_miss(key, directories(options));
  if (!options.json) {
    print_answer(explanation.sentence + "\n");
    return ExitCode::ok;
  }
  Json differences = Json::array();
  for (const KeyDifference& d : explanation.differences) {
    differences.push_back({{"label", d.label}, {"wanted", d.wanted}, {"found", d.found}});
  }
  print_answer(
      printed({{"file", key.file_name()},
               {"present", explanation.present},
               {"closest", explanation.closest.empty() ? Json() : Json(explanation.closest.string())},
               {"fault", explanation.fault.empty() ? Json() : Json(explanation.fault)},
               {"differences", differences},
               {"sentence", explanation.sentence}}));
  return ExitCode::ok;
}

ExitCode print_removal(const Options& options, const fs::path& directory, const CacheRemoval& removal) {
  print_answer(
      options.json
          ? printed({{"dir", directory.string()}, {"files", removal.files}, {"bytes", removal.bytes}})
          : fmt::format("removed {} files, {} bytes, from {}\n", removal.files, removal.bytes,
                        directory.string()));
  return ExitCode::ok;
}

// CLI::AsSizeValue wraps a negative number round and saturates what 64 bits cannot hold.
std::string refuse_wrapping(const std::string& text) {
  std::uint64_t number = 0;
  const auto error = std::from_chars(text.data(), text.data() + text.size(), number).ec;
  return error == std::errc()
             ? ""
             : fmt::format("\"{}\" is no size that 64 bits hold, such as 500000 or 100M", text);
}

ExitCode trim_cache(const Options& options) {
  const CacheDirectories tiers = directories(options);
  const fs::path directory = user_directory(tiers);
  require_access(directory, R_OK | W_OK | X_OK, "trimmed");
  return print_removal(options, directory, trim(directory, options.max_bytes.value_or(tiers.max_bytes)));
}

ExitCode clear_cache(const Options& options) {
  const fs::path directory = user_directory(directories(options));
  require_access(directory, R_OK | W_OK | X_OK, "cleared");
  return print_removal(options, directory, clear(directory));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Looks into the caches of compiled kernels.", "smla-cache");
  Options options;
  ExitCode (*action)(const Options&) = nullptr;
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--dir", options.dir, "A directory instead of your cache and the system's")
      ->type_name("DIR");
  app.add_flag("--json", options.json, "Print one JSON object");
  const auto add = [&](const char* name, const char* description, ExitCode (*run)(const Options&)) {
    CLI::App* command = app.add_subcommand(name, description);
    command->fallthrough();
    command->callback([&action, run] { action = run; });
    return command;
  };
  add("path", "Print the directory that programs of this user fill", print_path);
  add("list", "Entries with size, last use and compiler", list);
  add("verify", "Read every entry to its last byte", verify);

  CLI::App* extracting = add("extract", "Write one entry's cubin, key or compiler log", extract);
  extracting->add_option("entry", options.entry, "A path, a file name or its beginning")->required();
  extracting->add_option("--what", options.what, "Which part")
      ->check(CLI::IsMember({"cubin", "key", "log"}))
      ->type_name("cubin|key|log")
      ->capture_default_str();
  extracting->add_option("--out", options.out, "File to write instead of stdout (-)")->type_name("FILE");

  CLI::App* explaining =
      add("why-miss", "Why a kernel would be compiled: what differs from the closest entry", why_miss);
  add_problem_flags(*explaining, options.flags);
  explaining->add_option("--arch", options.arch, "GPU architecture")->capture_default_str();

  CLI::App* trimming = add("trim", "Remove the least recently used entries", trim_cache);
  trimming->add_option("--max-bytes", options.max_bytes, "What may stay: 500000, 100M (default: the cap)")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator(refuse_wrapping, ""));  // the last to be added is the first to run
  add("clear", "Remove all entries", clear_cache);

  describe_tool(app, kExamples,
                {ExitCode::internal, ExitCode::usage, ExitCode::not_supported, ExitCode::no_compiler,
                 ExitCode::cache, ExitCode::output});
  return run_tool(app, argc, argv, [&] { return action(options); });
}
