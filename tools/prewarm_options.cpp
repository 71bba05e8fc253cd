#include "prewarm_options.h"

#include <algorithm>

#include "config/arch.h"

namespace smla::core {
namespace {

std::vector<Arch> parse_archs(const std::vector<std::string>& names) {
  std::vector<Arch> archs;
  for (const std::string& text : names) archs.push_back(parse_arch(text));
  return archs;
}

}  // namespace

void add_prewarm_flags(CLI::App& app, PrewarmOptions& options) {
  add_problem_flags(app, options.flags);
  app.add_option("--manifest", options.manifest, "Kernels from a file, as SMLA_RECORD=FILE writes it (JSON)")
      ->type_name("FILE");
  app.add_option("--arch", options.archs,
                 "GPU architectures, repeated or with commas (default: the manifest's own; sm_90a for flags)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("ARCH");
  app.add_option("--jobs", options.jobs, "Worker processes (default: the cores of this machine)");
  app.add_option("--cache-dir", options.cache_dir, "Directory to fill instead of your cache")
      ->type_name("DIR");
  app.add_flag("--json", options.json, "Print one JSON object");
  app.add_option("--worker", options.worker)->group("");  // hidden: how this program calls itself
}

Manifest wanted_kernels(const PrewarmOptions& options) {
  const std::vector<Arch> archs = parse_archs(options.archs);
  Manifest all;
  if (!options.manifest.empty()) {
    for (const ManifestEntry& entry : read_manifest(options.manifest)) {
      if (archs.empty()) all.push_back(entry);
      for (const Arch& arch : archs)
        all.push_back({entry.problem, {}, arch});  // a config is chosen for each arch
    }
  }
  if (options.flags.problem.heads != 0) {
    const Problem& problem = options.flags.problem;
    for (const Arch& arch : archs.empty() ? std::vector<Arch>{{90, true}} : archs) {
      validate(problem);
      choose_config(problem, arch, options.flags.request);  // refused before anything is compiled
      all.push_back({problem, options.flags.request, arch});
    }
  }
  Manifest once;
  for (const ManifestEntry& entry : all) {
    if (std::find(once.begin(), once.end(), entry) == once.end()) once.push_back(entry);
  }
  return once;
}

}  // namespace smla::core
