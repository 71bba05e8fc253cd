#include "plan/manifest.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "plan/json.h"

namespace smla::core {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kManifestVersion = 1;

ManifestEntry read_entry_of(const Json& json) {
  ManifestEntry entry;
  if (!json.is_object() || !json.contains("problem") || !json.contains("arch") || !json["arch"].is_string()) {
    fail(Status::invalid_argument, "a kernel needs the fields \"problem\" and \"arch\", and is {}",
         shown(json));
  }
  for (const auto& [field, value] : json.items()) {
    if (field != "problem" && field != "arch" && field != "config") {
      fail(Status::invalid_argument, "{} is no field of a kernel", field);
    }
  }
  entry.problem = json["problem"].get<Problem>();
  if (json.contains("config")) entry.request = json["config"].get<ConfigRequest>();
  entry.arch = parse_arch(json["arch"].get<std::string>());
  return entry;
}

// Holds the lock until it is destroyed; the kernel releases it when the process dies.
class FileLock {
 public:
  explicit FileLock(const std::string& file)
      : descriptor_(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail(Status::internal_error, "{} cannot be opened: {}", file, std::strerror(errno));
    while (flock(descriptor_, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      close(descriptor_);
      fail(Status::internal_error, "{} cannot be locked: {}", file, std::strerror(error));
    }
  }
  ~FileLock() { close(descriptor_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

void replace_file(const std::string& file, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}.tmp", file, getpid());
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0)
    fail(Status::internal_error, "{} cannot be written: {}", temporary, std::strerror(errno));
  const char* from = text.data();
  std::size_t left = text.size();
  while (left > 0) {
    const ssize_t written = write(descriptor, from, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    from += written;
    left -= static_cast<std::size_t>(written);
  }
  bool good = left == 0 && fsync(descriptor) == 0;
  int error = errno;
  if (close(descriptor) != 0) {
    good = false;
    error = errno;
  }
  if (good && std::rename(temporary.c_str(), file.c_str()) != 0) {
    good = false;
    error = errno;
  }
  if (!good) {
    unlink(temporary.c_str());
    fail(Status::internal_error, "{} cannot be written: {}", file, std::strerror(error));
  }
}

ConfigRequest forced(const Config& c) {
  return {c.schedule, c.block_h, c.block_size, c.stages, c.threads};
}

}  // namespace

Manifest parse_manifest(std::string_view text, std::string_view origin) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) fail(Status::invalid_argument, "{} is not JSON", origin);
  if (!json.is_object() || !json.contains("kernels") || !json["kernels"].is_array()) {
    fail(Status::invalid_argument, "{} is no manifest: it has no array \"kernels\"", origin);
  }
  if (json.contains("smla_manifest") && json["smla_manifest"] != kManifestVersion) {
    fail(Status::invalid_argument, "{} is a manifest of version {}; this smla reads version {}", origin,
         shown(json["smla_manifest"]), kManifestVersion);
  }
  Manifest manifest;
  for (const Json& kernel : json["kernels"]) {
    try {
      manifest.push_back(read_entry_of(kernel));
    } catch (const Error& error) {
      const std::string_view sentence = error.what();
      fail(error.status(), "{}, kernel {}: {}", origin, manifest.size(),
           sentence.substr(sizeof "smla: " - 1));
    }
  }
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    fail(Status::invalid_argument, "the manifest {} cannot be read: it is a directory", file.string());
  }
  std::ifstream stream(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream.is_open() || stream.bad()) {
    fail(Status::invalid_argument, "the manifest {} cannot be read: {}", file.string(), std::strerror(errno));
  }
  return parse_manifest(text, file.string());
}

std::string manifest_text(const Manifest& manifest) {
  Json kernels = Json::array();
  for (const ManifestEntry& entry : manifest) {
    Json kernel = {{"problem", entry.problem}};
    if (!(entry.request == ConfigRequest{})) kernel["config"] = entry.request;
    kernel["arch"] = name(entry.arch);
    kernels.push_back(std::move(kernel));
  }
  return Json{{"smla_manifest", kManifestVersion}, {"kernels", std::move(kernels)}}.dump(2) + "\n";
}

void add_to_manifest(const std::filesystem::path& file, const ManifestEntry& entry) {
  static std::mutex
      mutex;  // flock orders processes, and threads too, but one open file a thread is cheaper waited for
  const std::lock_guard threads(mutex);
  const FileLock processes(file.string() + ".lock");
  Manifest manifest;
  if (std::filesystem::exists(file) && std::filesystem::file_size(file) > 0) manifest = read_manifest(file);
  if (std::find(manifest.begin(), manifest.end(), entry) != manifest.end()) return;
  manifest.push_back(entry);
  replace_file(file.string(), manifest_text(manifest));
}

void record(const Problem& problem, const Config& config, const Arch& arch) {
  const char* file = std::getenv("SMLA_RECORD");
  if (file == nullptr || *file == '\0') return;
  try {
    add_to_manifest(file, {problem, forced(config), arch});
  } catch (const std::exception& error) {
    warn("SMLA_RECORD={}: the kernel {} was not recorded: {}", file, canonical_name(problem), error.what());
  }
}

std::string problem_flags(const Problem& p) {
  const Problem defaults;
  std::string line = fmt::format("--heads {}", p.heads);
  if (p.kv_groups != defaults.kv_groups) line += fmt::format(" --kv-groups {}", p.kv_groups);
  if (p.d_v != defaults.d_v) line += fmt::format(" --d-v {}", p.d_v);
  if (p.d_tail != defaults.d_tail) line += fmt::format(" --d-tail {}", p.d_tail);
  if (p.dtype != defaults.dtype) line += fmt::format(" --dtype {}", name(p.dtype));
  if (p.causal) line += " --causal";
  if (p.has_sink) line += " --sink";
  if (p.lse_includes_sink) line += " --lse-includes-sink";
  if (p.has_topk_length) line += " --topk-length";
  if (p.has_delta) line += " --delta";
  if (p.lse_base != defaults.lse_base) line += fmt::format(" --lse-base {}", name(p.lse_base));
  if (p.d_kv_type != defaults.d_kv_type) line += fmt::format(" --d-kv-type {}", name(p.d_kv_type));
  if (p.accumulate != defaults.accumulate) line += fmt::format(" --accumulate {}", name(p.accumulate));
  if (p.deterministic) line += " --deterministic";
  return line;
}

std::string prewarm_line(const Problem& p, const Config& c, const Arch& arch) {
  std::string line = "smla-prewarm " + problem_flags(p);
  if (choose_config(p, arch).config != c) {  // somebody forced it
    line += fmt::format(" --schedule {} --block-h {} --block-size {} --stages {} --threads {}",
                        name(c.schedule), c.block_h, c.block_size, c.stages, c.threads);
  }
  return line + fmt::format(" --arch {}", name(arch));
}

}  // namespace smla::core
