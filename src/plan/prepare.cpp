#include "plan/prepare.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "cache/memory_tier.h"
#include "cache/sha256.h"
#include "compiler/compiler.h"
#include "generator/generator.h"
#include "plan/compiler_identity.h"
#include "plan/manifest.h"

namespace smla::core {
namespace {

// Raised when entries of older versions must not be found any more although text, arch, compiler and options
// agree: another meaning of Arguments or of the launch rules.
constexpr int kSchema = 1;

constexpr const char* kCompilerLabel = "compiler";

// By values: a hit generates no text.
struct MemoryKey {
  Problem problem;
  Config config;
  Arch arch;
  std::optional<std::string> templates;  // SMLA_TEMPLATE_DIR
  bool operator==(const MemoryKey&) const = default;
};

struct MemoryKeyHash {
  std::size_t operator()(const MemoryKey& key) const {
    const Problem& p = key.problem;
    const Config& c = key.config;
    const auto flags = {p.causal,    p.has_sink,          p.has_topk_length,
                        p.has_delta, p.lse_includes_sink, p.deterministic};
    const std::initializer_list<int> numbers = {p.heads,
                                                p.kv_groups,
                                                p.d_tail,
                                                static_cast<int>(p.dtype),
                                                static_cast<int>(p.lse_base),
                                                static_cast<int>(p.d_kv_type),
                                                static_cast<int>(c.schedule),
                                                c.block_h,
                                                c.block_size,
                                                c.stages,
                                                c.threads,
                                                key.arch.number * 2 + (key.arch.features ? 1 : 0)};
    std::size_t hash = std::hash<std::optional<std::string>>()(key.templates);
    for (const bool flag : flags) hash = hash * 2 + (flag ? 1 : 0);
    for (const int number : numbers) hash = hash * 1000003 + static_cast<std::size_t>(number);
    return hash;
  }
};

using Tier = MemoryTier<MemoryKey, std::shared_ptr<const Prepared>, MemoryKeyHash>;

// Never destroyed: plans of other threads may be created while the process exits.
Tier& memory_tier() {
  static Tier& only = *new Tier;
  return only;
}

MemoryKey memory_key(const Problem& problem, const Config& config, const Arch& arch) {
  return {problem, config, arch, template_override()};
}

std::string looked_in(const CacheDirectories& directories) {
  std::vector<std::string> places;
  if (directories.system) places.push_back(directories.system->string());
  if (directories.user) places.push_back(directories.user->string());
  return places.empty() ? "no directory (" + directories.user_reason + ")"
                        : fmt::format("{}", fmt::join(places, ", "));
}

// The NVRTC that was opened is not the one that the search for it had promised: it was replaced in between.
struct CompilerChanged {};

CacheResult find_or_compile(const KernelSource& source, const Problem& problem, const Config& config,
                            const Arch& arch) {
  const CacheDirectories directories = cache_directories();
  if (!jit_allowed()) {
    if (auto found = find_any(directories, cache_key(source, arch, ""), kCompilerLabel))
      return *std::move(found);
    fail(Status::not_cached,
         "the kernels of {} for {} are in no cache (looked in {}), and SMLA_JIT=off forbids compiling; run: "
         "{}",
         source.name, name(arch), looked_in(directories), prewarm_line(problem, config, arch));
  }
  try {
    const auto find_or_build_with = [&](const std::string& compiler) {
      return find_or_build(directories, cache_key(source, arch, compiler), [&] {
        if (compiler_version().identity() != compiler) throw CompilerChanged{};
        return compile(source, arch, failure_directory(directories));
      });
    };
    try {
      return find_or_build_with(compiler_identity(directories));
    } catch (const CompilerChanged&) {
      return find_or_build_with(compiler_version().identity());
    }
  } catch (const Error& error) {  // no NVRTC, or one that is too old for the arch
    if (error.status() != Status::no_compiler) throw;
    if (auto found = find_any(directories, cache_key(source, arch, ""), kCompilerLabel)) {
      return *std::move(found);
    }
    fail(error.status(),
         "{}. The kernels of {} for {} are in no cache either (looked in {}); where NVRTC works, run: {}",
         std::string_view(error.what()).substr(sizeof "smla: " - 1), source.name, name(arch),
         looked_in(directories), prewarm_line(problem, config, arch));
  }
}

std::shared_ptr<const Prepared> build(const Problem& problem, const Config& config, const Arch& arch) {
  KernelSource source = generate(problem, config);
  CacheResult result = find_or_compile(source, problem, config, arch);
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->config = config;
  prepared->arch = arch;
  prepared->name = std::move(source.name);
  prepared->kernels = std::move(source.kernels);
  prepared->cubin = std::move(result.entry.cubin);
  prepared->key = std::move(result.entry.key);
  prepared->source = result.source;
  record(problem, config, arch);
  return prepared;
}

}  // namespace

CacheKey cache_key(const KernelSource& source, const Arch& arch, std::string_view compiler) {
  const std::string stem = fmt::format("sparse-mla-bwd-{}-{}", source.name, name(arch));
  std::vector<KeyLine> lines = {{"schema", std::to_string(kSchema)},
                                {"source-sha256", sha256_hex(source.text())},
                                {"arch", name(arch)}};
  if (!compiler.empty()) lines.emplace_back(kCompilerLabel, compiler);
  lines.emplace_back("options", fmt::format("{}", fmt::join(compile_options(arch), " ")));
  return make_key(stem, lines);
}

std::shared_ptr<const Prepared> prepare(const Problem& problem, const Config& config, const Arch& arch) {
  return memory_tier().get_or_build(memory_key(problem, config, arch),
                                    [&] { return build(problem, config, arch); });
}

std::shared_ptr<const Prepared> find_prepared(const Problem& problem, const Config& config,
                                              const Arch& arch) {
  const auto found = memory_tier().find(memory_key(problem, config, arch));
  return found ? *found : nullptr;
}

bool jit_allowed() {
  const char* value = std::getenv("SMLA_JIT");
  const std::string_view word = value ? value : "";
  if (word.empty() || word == "on" || word == "1") return true;
  if (word == "off" || word == "0") return false;
  fail(Status::invalid_argument, "SMLA_JIT = \"{}\" is neither \"on\" nor \"off\"", word);
}

std::string_view name(CacheSource source) {
  switch (source) {
    case CacheSource::system_tier:
      return "system cache";
    case CacheSource::user_tier:
      return "user cache";
    case CacheSource::built:
      return "built";
  }
  return "unknown";
}

}  // namespace smla::core
