#include "plan/tuning.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "base/error.h"
#include "plan/json.h"

namespace smla::core {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kTuningVersion = 1;
constexpr std::size_t kMaxTuningBytes = 16 << 20;  // thousands of entries; a wrong file shall not fill memory

std::int64_t read_length(const Json& json, const char* field) {
  const Json& value = json.contains(field) ? json[field] : Json();
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > most) {
    fail(Status::invalid_argument, "lengths.{} = {} is not an integer from 1 to {}", field, shown(value),
         most);
  }
  return value.get<std::int64_t>();
}

double read_milliseconds(const Json& json, const char* field) {
  if (!json.contains(field)) return 0;
  if (!json[field].is_number())
    fail(Status::invalid_argument, "{} = {} is no number", field, shown(json[field]));
  return json[field].get<double>();
}

TunedEntry read_entry(const Json& json) {
  if (!json.is_object()) fail(Status::invalid_argument, "an object is wanted, and there is {}", shown(json));
  for (const auto& [field, value] : json.items()) {
    constexpr std::string_view kFields[] = {"device", "problem", "lengths",   "config",
                                            "order",  "ms",      "untuned_ms"};
    if (std::find(std::begin(kFields), std::end(kFields), field) == std::end(kFields)) {
      fail(Status::invalid_argument, "{} is no field of an entry", field);
    }
  }
  for (const char* field : {"device", "problem", "lengths", "config", "order"}) {
    if (!json.contains(field)) fail(Status::invalid_argument, "the field {} is missing", field);
  }
  for (const char* field : {"device", "order"}) {
    if (!json[field].is_string())
      fail(Status::invalid_argument, "{} = {} is no text", field, shown(json[field]));
  }
  TunedEntry entry;
  entry.device = json["device"].get<std::string>();
  entry.problem = json["problem"].get<Problem>();
  const Json& lengths = json["lengths"];
  entry.lengths = {read_length(lengths, "batch"), read_length(lengths, "queries"),
                   read_length(lengths, "keys"), read_length(lengths, "topk")};
  entry.config = json["config"].get<ConfigRequest>();
  const auto order = find_order(json["order"].get<std::string>());
  if (!order) {
    fail(Status::invalid_argument, "order = {} is none of auto, caller, sorted and throttled",
         shown(json["order"]));
  }
  entry.order = *order;
  entry.ms = read_milliseconds(json, "ms");
  entry.untuned_ms = read_milliseconds(json, "untuned_ms");
  return entry;
}

int bits(std::int64_t value) noexcept {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0))));
}

bool names(const ConfigRequest& request, const Config& config) noexcept {
  const auto agrees = [](const auto& wanted, const auto& value) { return !wanted || *wanted == value; };
  return agrees(request.schedule, config.schedule) && agrees(request.block_h, config.block_h) &&
         agrees(request.block_size, config.block_size) && agrees(request.stages, config.stages) &&
         agrees(request.threads, config.threads);
}

}  // namespace

bool same_class(const Problem& problem, const Lengths& one, const Lengths& other) {
  return bits(one.keys * problem.kv_groups) == bits(other.keys * problem.kv_groups) &&
         bits(one.topk) == bits(other.topk);
}

Tuning parse_tuning(std::string_view text, std::string_view origin) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) fail(Status::invalid_argument, "{} is not JSON", origin);
  if (!json.is_object() || !json.contains("entries") || !json["entries"].is_array()) {
    fail(Status::invalid_argument, "{} is no tuning file: it has no array \"entries\"", origin);
  }
  if (json.contains("smla_tuning") && json["smla_tuning"] != kTuningVersion) {
    fail(Status::invalid_argument, "{} is a tuning file of version {}; this smla reads version {}", origin,
         shown(json["smla_tuning"]), kTuningVersion);
  }
  Tuning tuning;
  for (const Json& entry : json["entries"]) {
    try {
      tuning.push_back(read_entry(entry));
    } catch (const Error& error) {
      const std::string_view sentence = error.what();
      fail(error.status(), "{}, entry {}: {}", origin, tuning.size(), sentence.substr(sizeof "smla: " - 1));
    }
  }
  return tuning;
}

Tuning read_tuning(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    fail(Status::invalid_argument, "the tuning file {} cannot be read: it is a directory", file.string());
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxTuningBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad()) {
    fail(Status::invalid_argument, "the tuning file {} cannot be read: {}", file.string(),
         std::strerror(errno));
  }
  if (text.size() > kMaxTuningBytes) {
    fail(Status::invalid_argument, "the tuning file {} cannot be read: it is longer than {} bytes",
         file.string(), kMaxTuningBytes);
  }
  return parse_tuning(text, file.string());
}

std::string tuning_text(const Tuning& tuning) {
  Json entries = Json::array();
  for (const TunedEntry& e : tuning) {
    entries.push_back({{"device", e.device},
                       {"problem", e.problem},
                       {"lengths",
                        {{"batch", e.lengths.batch},
                         {"queries", e.lengths.queries},
                         {"keys", e.lengths.keys},
                         {"topk", e.lengths.topk}}},
                       {"config", e.config},
                       {"order", name(e.order)},
                       {"ms", e.ms},
                       {"untuned_ms", e.untuned_ms}});
  }
  return Json{{"smla_tuning", kTuningVersion}, {"entries", std::move(entries)}}.dump(2) + "\n";
}

void put_entry(Tuning& tuning, TunedEntry entry) {
  const auto place = std::find_if(tuning.begin(), tuning.end(), [&](const TunedEntry& other) {
    return other.device == entry.device && other.problem == entry.problem &&
           same_class(entry.problem, other.lengths, entry.lengths);
  });
  if (place == tuning.end()) {
    tuning.push_back(std::move(entry));
  } else {
    *place = std::move(entry);
  }
}

Tuning tuning_from_environment(std::string_view device, const Problem& problem) {
  const char* file = std::getenv("SMLA_TUNING");
  if (file == nullptr || *file == '\0') return {};
  Tuning tuning;
  try {
    tuning = read_tuning(file);
  } catch (const Error& error) {
    fail(error.status(), "SMLA_TUNING: {}", std::string_view(error.what()).substr(sizeof "smla: " - 1));
  }
  std::erase_if(tuning, [&](const TunedEntry& e) { return e.device != device || e.problem != problem; });
  return tuning;
}

std::optional<ConfigRequest> tuned_config(const Tuning& entries, const Limits& limits) {
  if (entries.empty()) return std::nullopt;
  if (limits.keys && limits.topk) {
    const Lengths largest = {.keys = *limits.keys, .topk = *limits.topk};
    for (const TunedEntry& e : entries) {
      if (same_class(e.problem, e.lengths, largest)) return e.config;
    }
    return std::nullopt;
  }
  const ConfigRequest& first = entries.front().config;
  const bool agreed =
      std::all_of(entries.begin(), entries.end(), [&](const TunedEntry& e) { return e.config == first; });
  return agreed ? std::optional(first) : std::nullopt;
}

OrderRequest tuned_order(const Tuning& entries, const Config& config, const Lengths& lengths,
                         const DeviceFacts& device) noexcept {
  for (const TunedEntry& e : entries) {
    if (!same_class(e.problem, e.lengths, lengths) || !names(e.config, config)) continue;
    const bool sweeps = e.order == OrderRequest::sorted || e.order == OrderRequest::sorted_throttled;
    return sweeps && !can_sweep(config, lengths, device) ? OrderRequest::automatic : e.order;
  }
  return OrderRequest::automatic;
}

}  // namespace smla::core
