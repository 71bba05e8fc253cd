#include "jobs.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "cache/cache.h"
#include "config/config.h"
#include "plan/prepare.h"
#include "process.h"

namespace smla::core {
namespace {

std::string label(const ManifestEntry& entry) {
  return fmt::format("{} for {}", canonical_name(entry.problem), name(entry.arch));
}

JobResult failed(const ManifestEntry& entry, ExitCode code, std::string error) {
  JobResult result;
  result.kernel = label(entry);
  result.code = code;
  result.error = std::move(error);
  return result;
}

void add_resources(JobResult& result, const Prepared& prepared) {
  for (const KernelFacts& facts : prepared.kernels) {
    if (facts.role != KernelRole::backward) continue;
    for (const KernelResources& r : prepared.cubin.kernels) {
      if (r.name != facts.name) continue;
      result.registers = r.registers;
      result.spill_bytes = r.spill_store_bytes + r.spill_load_bytes;
      result.shared_bytes = facts.shared_bytes + r.shared_bytes;
      result.code_bytes = r.code_bytes;
    }
  }
}

JobResult prepare_and_store(const ManifestEntry& entry) {
  validate(entry.problem);
  const Config config = choose_config(entry.problem, entry.arch, entry.request).config;
  if (entry.problem.accumulate == Accumulate::partial) {  // a plan loads both
    ManifestEntry fallback = entry;
    fallback.problem = with_fp32_sums(entry.problem);
    fallback.request = same_blocks(config);
    JobResult result = prepare_and_store(fallback);
    if (result.outcome == Outcome::failed) return result;
  }
  const auto prepared = prepare(entry.problem, config, entry.arch);
  JobResult result;
  result.kernel = fmt::format("{}-{}", prepared->name, name(entry.arch));
  result.outcome = prepared->source == CacheSource::built ? Outcome::built : Outcome::already_there;
  result.file = prepared->key.file_name();
  if (result.outcome == Outcome::built) {
    result.compile_seconds = prepared->cubin.compile_seconds;
    result.compile_cpu_seconds = prepared->cubin.compile_cpu_seconds;
  }
  add_resources(result, *prepared);
  // prepare() takes a failed write for a warning, since the kernel works; here the file is the product.
  if (result.outcome == Outcome::built && !find(cache_directories(), prepared->key)) {
    result.outcome = Outcome::failed;
    result.code = ExitCode::cache;
    result.error = "smla: compiled, but it could not be stored in the cache";
  }
  return result;
}

Outcome parse_outcome(const std::string& text) {
  for (const Outcome outcome : {Outcome::built, Outcome::already_there}) {
    if (text == name(outcome)) return outcome;
  }
  return Outcome::failed;
}

JobResult parse_answer(const ManifestEntry& entry, const ProcessResult& process) {
  const Json json = Json::parse(process.output, nullptr, false);
  if (process.exit_code != 0 || !json.is_object()) {
    return failed(
        entry, ExitCode::internal,
        process.exit_code > 128
            ? fmt::format("smla: its worker was ended by signal {}", process.exit_code - 128)
            : fmt::format("smla: its worker ended with exit code {} and no answer", process.exit_code));
  }
  JobResult result;
  result.kernel = json.at("kernel").get<std::string>();
  result.outcome = parse_outcome(json.at("outcome").get<std::string>());
  result.file = json.at("file").get<std::string>();
  result.compile_seconds = json.at("compile_seconds").get<double>();
  result.compile_cpu_seconds = json.at("compile_cpu_seconds").get<double>();
  result.registers = json.at("registers").get<int>();
  result.spill_bytes = json.at("spill_bytes").get<int>();
  result.shared_bytes = json.at("shared_bytes").get<int>();
  result.code_bytes = json.at("code_bytes").get<std::int64_t>();
  result.code = static_cast<ExitCode>(json.at("exit_code").get<int>());
  result.error = json.at("error").get<std::string>();
  return result;
}

}  // namespace

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::built:
      return "built";
    case Outcome::already_there:
      return "already there";
    case Outcome::failed:
      return "failed";
  }
  return "failed";
}

Json to_json(const JobResult& r) {
  return {{"kernel", r.kernel},
          {"outcome", name(r.outcome)},
          {"file", r.file},
          {"compile_seconds", r.compile_seconds},
          {"compile_cpu_seconds", r.compile_cpu_seconds},
          {"registers", r.registers},
          {"spill_bytes", r.spill_bytes},
          {"shared_bytes", r.shared_bytes},
          {"code_bytes", r.code_bytes},
          {"exit_code", static_cast<int>(r.code)},
          {"error", r.error}};
}

JobResult do_job(const ManifestEntry& entry) {
  try {
    return prepare_and_store(entry);
  } catch (const Error& error) {
    return failed(entry, exit_code(error.status()), error.what());
  } catch (const std::exception& error) {
    return failed(entry, ExitCode::internal, error.what());
  }
}

std::vector<std::string> worker_arguments(const ManifestEntry& entry) {
  return {"/proc/self/exe", "--worker", manifest_text({entry})};
}

ManifestEntry parse_worker_argument(const std::string& text) {
  const Manifest manifest = parse_manifest(text, "--worker");
  if (manifest.size() != 1) stop(ExitCode::usage, "--worker takes one kernel and got {}", manifest.size());
  return manifest.front();
}

std::string worker_answer(const JobResult& result) {
  return to_json(result).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<JobResult> run_jobs(
    const std::vector<ManifestEntry>& jobs, std::size_t workers,
    const std::function<void(const JobResult& result, const std::string& complaints)>& finished) {
  std::vector<JobResult> results(jobs.size());
  std::atomic<std::size_t> next = 0;
  std::mutex finishing;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      std::string complaints;
      try {
        const ProcessResult process = run_process(worker_arguments(jobs[i]));
        complaints = process.errors;
        results[i] = parse_answer(jobs[i], process);
      } catch (const std::exception& error) {
        results[i] = failed(jobs[i], ExitCode::internal, error.what());
      }
      const std::lock_guard lock(finishing);
      finished(results[i], complaints);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(workers, jobs.size()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace smla::core
