// Kernels to be compiled into the cache, each by a worker process of its own: a crash of the compiler costs
// one kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "exit_codes.h"
#include "json_report.h"
#include "plan/manifest.h"

namespace smla::core {

enum class Outcome { built, already_there, failed };

std::string_view name(Outcome outcome);  // "built", "already there", "failed"

struct JobResult {
  std::string kernel;  // name of the generated text and arch, or the problem's where none could be generated
  Outcome outcome = Outcome::failed;
  std::string file;            // in the cache
  double compile_seconds = 0;  // these two: when it was built
  double compile_cpu_seconds = 0;
  int registers = 0;  // these four: of the backward kernel
  int spill_bytes = 0;
  int shared_bytes = 0;
  std::int64_t code_bytes = 0;
  ExitCode code = ExitCode::ok;  // why it failed
  std::string error;
};

Json to_json(const JobResult& result);

// In a worker: finds or compiles the kernel and makes sure that the cache holds it. Never throws.
JobResult do_job(const ManifestEntry& entry);

// The worker's command line and its answer.
std::vector<std::string> worker_arguments(const ManifestEntry& entry);
std::string worker_answer(const JobResult& result);
ManifestEntry parse_worker_argument(const std::string& text);

// Runs `workers` processes at a time until all jobs are done. `finished` is called once a job, by one thread
// at a time, with the job's number, its result and what its worker wrote to stderr. Results are in the order
// of the jobs.
std::vector<JobResult> run_jobs(
    const std::vector<ManifestEntry>& jobs, std::size_t workers,
    const std::function<void(const JobResult& result, const std::string& complaints)>& finished);

}  // namespace smla::core
