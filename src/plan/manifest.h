// The list of kernels that a program used, for smla-prewarm: written when SMLA_RECORD=FILE is set.
//
//   { "smla_manifest": 1,
//     "kernels": [ { "problem": { "heads": 64, "kv_groups": 1, ... },
//                    "config": { "schedule": "wgmma", "block_h": 64, "block_size": 64, "stages": 1,
//                    "threads": 384 }, "arch": "sm_90a" } ] }
//
// Fields that are missing from a problem have their defaults and those missing from a config are chosen, so
// that one can be written by hand: {"problem": {"heads": 128}, "arch": "sm_90a"}. Unknown fields are refused
// by name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "problem/problem.h"

namespace smla::core {

struct ManifestEntry {
  Problem problem;
  ConfigRequest request;
  Arch arch;

  bool operator==(const ManifestEntry&) const = default;
};

using Manifest = std::vector<ManifestEntry>;

// Error invalid_argument says what is wrong and where; `origin` (a file's name) is part of the sentence.
Manifest parse_manifest(std::string_view text, std::string_view origin);
Manifest read_manifest(const std::filesystem::path& file);

std::string manifest_text(const Manifest& manifest);

// Adds the entry to the file unless it is there. Other processes may do the same at the same time: a lock
// beside the file (FILE.lock) orders them, and the file is replaced by rename. Throws Error internal_error
// naming the file.
void add_to_manifest(const std::filesystem::path& file, const ManifestEntry& entry);

// add_to_manifest for the file that SMLA_RECORD names, if any; a failure is a warning, never an Error.
void record(const Problem& problem, const Config& config, const Arch& arch);

// The flags of the tools that spell a problem: what differs from the defaults, heads always.
std::string problem_flags(const Problem& problem);

// The smla-prewarm command that compiles exactly this: "smla-prewarm --heads 64 --causal --arch sm_90a".
std::string prewarm_line(const Problem& problem, const Config& config, const Arch& arch);

}  // namespace smla::core
