#include "cache/entry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cache/sha256.h"

namespace smla::core {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "SMLACUB\n";
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kDigestBytes = sizeof(Digest);
constexpr std::uint64_t kLargest = std::uint64_t{1}
                                   << 30;  // a file beyond this is no entry: ours have some 100 KB

// In the byte order of the host: CUDA's hosts are all little-endian, and an entry of another order fails on
// kFormat.
struct Header {
  char magic[8] = {};
  std::uint32_t format = kFormat;
  std::uint32_t stem_bytes = 0, key_bytes = 0, report_bytes = 0;
  std::uint64_t image_bytes = 0;

  std::uint64_t text_bytes() const { return std::uint64_t{stem_bytes} + key_bytes + report_bytes; }
};
static_assert(sizeof(Header) == 32);

json report_of(const Cubin& cubin) {
  json kernels = json::array();
  for (const auto& kernel : cubin.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"registers", kernel.registers},
                       {"spill_store_bytes", kernel.spill_store_bytes},
                       {"spill_load_bytes", kernel.spill_load_bytes},
                       {"stack_bytes", kernel.stack_bytes},
                       {"shared_bytes", kernel.shared_bytes},
                       {"code_bytes", kernel.code_bytes}});
  }
  return {{"arch", cubin.arch},
          {"compiler", cubin.compiler},
          {"kernels", std::move(kernels)},
          {"log", cubin.log},
          {"warnings", cubin.warnings},
          {"compile_seconds", cubin.compile_seconds},
          {"compile_cpu_seconds", cubin.compile_cpu_seconds}};
}

Cubin cubin_of(std::string_view text) {
  try {
    const json report = json::parse(text);
    Cubin cubin;
    report.at("arch").get_to(cubin.arch);
    report.at("compiler").get_to(cubin.compiler);
    report.at("log").get_to(cubin.log);
    report.at("warnings").get_to(cubin.warnings);
    report.at("compile_seconds").get_to(cubin.compile_seconds);
    report.at("compile_cpu_seconds").get_to(cubin.compile_cpu_seconds);
    for (const auto& kernel : report.at("kernels")) {
      cubin.kernels.push_back({.name = kernel.at("name"),
                               .registers = kernel.at("registers"),
                               .spill_store_bytes = kernel.at("spill_store_bytes"),
                               .spill_load_bytes = kernel.at("spill_load_bytes"),
                               .stack_bytes = kernel.at("stack_bytes"),
                               .shared_bytes = kernel.at("shared_bytes"),
                               .code_bytes = kernel.at("code_bytes")});
    }
    return cubin;
  } catch (const json::exception& error) {
    fail(Status::invalid_argument, "its report is damaged: {}", error.what());
  }
}

Header header_of(std::string_view bytes) {
  Header header;
  if (bytes.empty()) fail(Status::invalid_argument, "it is empty");
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, std::min(kMagic.size(), bytes.size()))) {
    fail(Status::invalid_argument, "it is no kernel cache entry");
  }
  if (bytes.size() < sizeof header) fail(Status::invalid_argument, "it is cut short: {} bytes", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.format != kFormat) {
    fail(Status::invalid_argument, "its format is {}, and this version reads {}", header.format, kFormat);
  }
  return header;
}

// Stem, key and report, which begin at the start of `texts`.
CacheEntry entry_of(const Header& header, std::string_view texts) {
  CacheEntry entry;
  entry.key.stem = texts.substr(0, header.stem_bytes);
  entry.key.text = texts.substr(header.stem_bytes, header.key_bytes);
  entry.cubin =
      cubin_of(texts.substr(std::size_t{header.stem_bytes} + header.key_bytes, header.report_bytes));
  return entry;
}

// An open file, for reading.
class File {
 public:
  // Error (invalid_argument) when it cannot be opened or is no regular file.
  explicit File(const std::filesystem::path& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe must not hang us
    struct stat facts {};
    if (descriptor_ < 0) fail(Status::invalid_argument, "it cannot be opened: {}", std::strerror(errno));
    if (fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      close(descriptor_);
      fail(Status::invalid_argument, "it is no regular file");
    }
    bytes_ = static_cast<std::uint64_t>(facts.st_size);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(descriptor_); }

  std::uint64_t bytes() const { return bytes_; }

  // Up to `count` bytes from where the last call ended.
  std::string next(std::uint64_t count) {
    if (bytes_ > kLargest) fail(Status::invalid_argument, "it is too large: {} bytes", bytes_);
    std::string result(static_cast<std::size_t>(std::min(count, bytes_)), '\0');
    std::size_t filled = 0;
    while (filled < result.size()) {
      const ssize_t got = read(descriptor_, result.data() + filled, result.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(Status::invalid_argument, "it cannot be read: {}", std::strerror(errno));
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    result.resize(filled);
    return result;
  }

 private:
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

// Runs `read` and puts the file's name before what it complains of.
template <class Read>
CacheEntry naming(const std::filesystem::path& file, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    fail(Status::invalid_argument, "{}: {}", file.string(), reason(error));
  }
}

}  // namespace

std::string reason(const Error& error) {
  constexpr std::string_view kLead = "smla: ";  // fail() puts it there
  const std::string_view message = error.what();
  return std::string(message.substr(0, kLead.size()) == kLead ? message.substr(kLead.size()) : message);
}

std::string mismatch(const CacheEntry& entry, const CacheKey& key) {
  if (entry.key.text != key.text) return "it holds another key, of " + entry.key.file_name();
  const auto arch = key_value(key, "arch");
  if (arch && *arch != entry.cubin.arch) return "its machine code is of " + entry.cubin.arch;
  return "";
}

std::string to_bytes(const CacheEntry& entry) {
  const std::string report = report_of(entry.cubin).dump(-1, ' ', false, json::error_handler_t::replace);
  Header header;
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.stem_bytes = static_cast<std::uint32_t>(entry.key.stem.size());
  header.key_bytes = static_cast<std::uint32_t>(entry.key.text.size());
  header.report_bytes = static_cast<std::uint32_t>(report.size());
  header.image_bytes = entry.cubin.image.size();

  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += entry.key.stem;
  bytes += entry.key.text;
  bytes += report;
  bytes.append(entry.cubin.image.data(), entry.cubin.image.size());
  const Digest digest = sha256(bytes);
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return bytes;
}

CacheEntry entry_from_bytes(std::string_view bytes) {
  const Header header = header_of(bytes);
  const std::uint64_t fixed = sizeof header + header.text_bytes() + kDigestBytes;
  if (header.image_bytes > kLargest || bytes.size() != fixed + header.image_bytes) {
    fail(Status::invalid_argument, "it has {} bytes instead of {}", bytes.size(), fixed + header.image_bytes);
  }
  const auto content = bytes.substr(0, bytes.size() - kDigestBytes);
  const Digest digest = sha256(content);
  if (std::memcmp(digest.data(), bytes.data() + content.size(), kDigestBytes) != 0) {
    fail(Status::invalid_argument, "its checksum is wrong");
  }
  CacheEntry entry = entry_of(header, content.substr(sizeof header));
  const auto image = content.substr(static_cast<std::size_t>(sizeof header + header.text_bytes()));
  entry.cubin.image.assign(image.begin(), image.end());
  return entry;
}

CacheEntry read_entry(const std::filesystem::path& path) {
  return naming(path, [&] {
    File file(path);
    return entry_from_bytes(file.next(file.bytes()));
  });
}

CacheEntry read_entry_header(const std::filesystem::path& path) {
  return naming(path, [&] {
    File file(path);
    const Header header = header_of(file.next(sizeof(Header)));
    const std::string texts = file.next(header.text_bytes());
    if (texts.size() != header.text_bytes()) {
      fail(Status::invalid_argument, "it is cut short: {} bytes", file.bytes());
    }
    return entry_of(header, texts);
  });
}

}  // namespace smla::core
