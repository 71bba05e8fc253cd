// smla-prewarm: compiles kernels into a cache directory before anybody needs them. Needs no GPU.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "answer.h"
#include "cache/cache.h"
#include "compile_time.h"
#include "jobs.h"
#include "plan/manifest.h"
#include "prewarm_options.h"
#include "progress.h"
#include "tool.h"

using namespace smla::core;

namespace {

constexpr const char* kExamples =
    "  smla-prewarm --heads 64                                     into your own cache, for sm_90a\n"
    "  smla-prewarm --heads 128 --arch sm_80,sm_90a --jobs 2       for several GPUs\n"
    "  SMLA_RECORD=used.json ./train && smla-prewarm --manifest used.json --cache-dir /opt/smla\n"
    "                                     what a run used, into a directory for SMLA_SYSTEM_CACHE_DIR\n";

// The workers inherit this environment.
void prepare_environment(const PrewarmOptions& options) {
  ::unsetenv("SMLA_JIT");     // compiling is what this program is for
  ::unsetenv("SMLA_RECORD");  // and it is no use of a kernel
  if (!options.cache_dir.empty()) {
    ::setenv("SMLA_CACHE_DIR", options.cache_dir.c_str(), 1);
    ::unsetenv("SMLA_SYSTEM_CACHE_DIR");  // so that the directory is complete on its own
  }
}

std::size_t count(const std::vector<JobResult>& results, Outcome outcome) {
  return static_cast<std::size_t>(std::count_if(results.begin(), results.end(),
                                                [=](const JobResult& r) { return r.outcome == outcome; }));
}

std::string line(const JobResult& r) {
  if (r.outcome == Outcome::failed) return fmt::format("failed         {}: {}", r.kernel, r.error);
  const std::string time =
      r.outcome == Outcome::built ? compile_time(r.compile_seconds, r.compile_cpu_seconds) : "";
  return fmt::format("{:<13} {:>25}  {:>3} registers  {} spill bytes  {:>6} shared bytes  {}",
                     name(r.outcome), time, r.registers, r.spill_bytes, r.shared_bytes, r.kernel);
}

std::string text_summary(const std::vector<JobResult>& results, double seconds,
                         const std::string& directory) {
  std::string text;
  for (const JobResult& result : results) text += line(result) + "\n";
  return text + fmt::format("built {}, already there {}, failed {} in {:.1f} s; kernels are in {}\n",
                            count(results, Outcome::built), count(results, Outcome::already_there),
                            count(results, Outcome::failed), seconds, directory);
}

Json json_summary(const std::vector<JobResult>& results, double seconds, const std::string& directory) {
  Json kernels = Json::array();
  for (const JobResult& result : results) kernels.push_back(to_json(result));
  return {{"cache_dir", directory},
          {"built", count(results, Outcome::built)},
          {"already_there", count(results, Outcome::already_there)},
          {"failed", count(results, Outcome::failed)},
          {"seconds", seconds},
          {"kernels", kernels}};
}

std::vector<JobResult> run_with_progress(const Manifest& jobs, std::size_t workers) {
  Progress progress(jobs.size());
  std::size_t built = 0, there = 0, failures = 0;
  std::set<std::string> said;  // what every worker has to say of the directory is said once
  return run_jobs(jobs, workers, [&](const JobResult& result, const std::string& complaints) {
    if (!complaints.empty() && said.insert(complaints).second) {
      progress.say(complaints.substr(0, complaints.find_last_not_of('\n') + 1));
    }
    (result.outcome == Outcome::built ? built : result.outcome == Outcome::failed ? failures : there) += 1;
    progress.advance(fmt::format("{} {}", name(result.outcome), result.kernel),
                     fmt::format("built {}, already there {}, failed {}", built, there, failures));
  });
}

ExitCode work(const PrewarmOptions& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphans; entries are whole or not there
  print_answer(worker_answer(do_job(parse_worker_argument(options.worker))));
  return ExitCode::ok;
}

ExitCode prewarm(const PrewarmOptions& options) {
  if (!options.worker.empty()) return work(options);
  if (options.flags.problem.heads == 0 && options.manifest.empty()) {
    stop(ExitCode::usage, "nothing to compile: name a shape (--heads 64) or a file (--manifest FILE)");
  }
  if (options.jobs < 0)
    fail(Status::invalid_argument, "--jobs = {} must be at least 1, or 0 for all cores", options.jobs);
  prepare_environment(options);
  const Manifest jobs = wanted_kernels(options);
  const CacheDirectories directories = cache_directories();
  if (!directories.user) stop(ExitCode::cache, "there is no cache to fill: {}", directories.user_reason);

  const auto began = std::chrono::steady_clock::now();
  const std::size_t workers = options.jobs > 0 ? static_cast<std::size_t>(options.jobs)
                                               : std::max(1u, std::thread::hardware_concurrency());
  const std::vector<JobResult> results = run_with_progress(jobs, workers);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();

  const std::string directory = directories.user->string();
  print_answer(options.json ? printed(json_summary(results, seconds, directory))
                            : text_summary(results, seconds, directory));
  for (const JobResult& result : results) {
    if (result.outcome == Outcome::failed) return result.code;
  }
  return ExitCode::ok;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compiles kernels into the cache before anybody needs them. Needs no GPU.", "smla-prewarm");
  PrewarmOptions options;
  add_prewarm_flags(app, options);
  describe_tool(app,
                std::string(kExamples) +
                    "\nThe first failed kernel decides the exit code; the others are compiled all "
                    "the same.\n",
                {ExitCode::internal, ExitCode::usage, ExitCode::not_supported, ExitCode::no_compiler,
                 ExitCode::compile_failed, ExitCode::cache, ExitCode::output});
  return run_tool(app, argc, argv, [&] { return prewarm(options); });
}
