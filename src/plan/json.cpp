#include "plan/json.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "plan/launches.h"

namespace smla::core {
namespace {

using Json = nlohmann::ordered_json;
using Readers = std::map<std::string, std::function<void(const Json&)>>;

// Hands each field of an object to its reader.
void read_object(const Json& json, const char* what, const Readers& readers) {
  if (!json.is_object())
    fail(Status::invalid_argument, "{} is {} where an object is wanted", what, shown(json));
  for (const auto& [field, value] : json.items()) {
    const auto reader = readers.find(field);
    if (reader == readers.end())
      fail(Status::invalid_argument, "{}.{} is no field that is known", what, field);
    reader->second(value);
  }
}

int read_int(const Json& json, const char* field) {
  if (!json.is_number_integer())
    fail(Status::invalid_argument, "{} = {} is not an integer", field, shown(json));
  const auto value = json.get<std::int64_t>();
  const bool wraps = json.is_number_unsigned() && value < 0;  // 2^63 and above
  if (wraps || value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    fail(Status::invalid_argument, "{} = {} is not in the range of a 32-bit integer", field, shown(json));
  }
  return static_cast<int>(value);
}

bool read_bool(const Json& json, const char* field) {
  if (!json.is_boolean())
    fail(Status::invalid_argument, "{} = {} is neither true nor false", field, shown(json));
  return json.get<bool>();
}

// One of two words.
template <class T>
T read_word(const Json& json, const char* field, T first, T second) {
  if (json.is_string() && json.get<std::string>() == name(first)) return first;
  if (json.is_string() && json.get<std::string>() == name(second)) return second;
  fail(Status::invalid_argument, "{} = {} is neither \"{}\" nor \"{}\"", field, shown(json), name(first),
       name(second));
}

}  // namespace

std::string shown(const Json& json) {
  constexpr std::size_t kMost = 80;
  if (json.is_array() && !json.empty()) return "an array";
  if (json.is_object() && !json.empty()) return "an object";
  const std::string text = json.dump(-1, ' ', true);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

void to_json(Json& json, const Problem& p) {
  json = {{"heads", p.heads},
          {"kv_groups", p.kv_groups},
          {"d_v", p.d_v},
          {"d_tail", p.d_tail},
          {"dtype", name(p.dtype)},
          {"causal", p.causal},
          {"has_sink", p.has_sink},
          {"has_topk_length", p.has_topk_length},
          {"has_delta", p.has_delta},
          {"lse_base", name(p.lse_base)},
          {"lse_includes_sink", p.lse_includes_sink},
          {"d_kv_type", name(p.d_kv_type)},
          {"accumulate", name(p.accumulate)},
          {"deterministic", p.deterministic}};
}

void from_json(const Json& json, Problem& p) {
  const auto integer = [](const char* field, int& to) {
    return [=, &to](const Json& v) { to = read_int(v, field); };
  };
  const auto flag = [](const char* field, bool& to) {
    return [=, &to](const Json& v) { to = read_bool(v, field); };
  };
  const auto word = [](const char* field, auto& to, auto first, auto second) {
    return [=, &to](const Json& v) { to = read_word(v, field, first, second); };
  };
  p = {};
  read_object(
      json, "problem",
      {{"heads", integer("problem.heads", p.heads)},
       {"kv_groups", integer("problem.kv_groups", p.kv_groups)},
       {"d_v", integer("problem.d_v", p.d_v)},
       {"d_tail", integer("problem.d_tail", p.d_tail)},
       {"dtype", word("problem.dtype", p.dtype, DType::bf16, DType::fp16)},
       {"causal", flag("problem.causal", p.causal)},
       {"has_sink", flag("problem.has_sink", p.has_sink)},
       {"has_topk_length", flag("problem.has_topk_length", p.has_topk_length)},
       {"has_delta", flag("problem.has_delta", p.has_delta)},
       {"lse_base", word("problem.lse_base", p.lse_base, LseBase::two, LseBase::e)},
       {"lse_includes_sink", flag("problem.lse_includes_sink", p.lse_includes_sink)},
       {"d_kv_type", word("problem.d_kv_type", p.d_kv_type, DkvType::operand, DkvType::fp32)},
       {"accumulate", word("problem.accumulate", p.accumulate, Accumulate::fp32, Accumulate::partial)},
       {"deterministic", flag("problem.deterministic", p.deterministic)}});
}

void to_json(Json& json, const Config& c) {
  json = {{"schedule", name(c.schedule)}, {"block_h", c.block_h}, {"block_size", c.block_size},
          {"stages", c.stages},           {"threads", c.threads}, {"vector_reductions", c.vector_reductions}};
}

void to_json(Json& json, const ConfigRequest& r) {
  json = Json::object();
  if (r.schedule) json["schedule"] = name(*r.schedule);
  if (r.block_h) json["block_h"] = *r.block_h;
  if (r.block_size) json["block_size"] = *r.block_size;
  if (r.stages) json["stages"] = *r.stages;
  if (r.threads) json["threads"] = *r.threads;
}

void from_json(const Json& json, ConfigRequest& r) {
  const auto integer = [](const char* field, std::optional<int>& to) {
    return [=, &to](const Json& v) { to = read_int(v, field); };
  };
  r = {};
  read_object(json, "config",
              {{"schedule",
                [&r](const Json& v) {
                  if (!v.is_string())
                    fail(Status::invalid_argument, "config.schedule = {} is no name", shown(v));
                  r.schedule = parse_schedule(v.get<std::string>());
                }},
               {"block_h", integer("config.block_h", r.block_h)},
               {"block_size", integer("config.block_size", r.block_size)},
               {"stages", integer("config.stages", r.stages)},
               {"threads", integer("config.threads", r.threads)}});
}

Json kernels_json(const std::vector<KernelFacts>& kernels, const Cubin& cubin) {
  Json all = Json::array();
  for (const KernelFacts& facts : kernels) {
    Json json = {{"name", facts.name},
                 {"role", name_of(facts.role)},
                 {"grid", facts.grid},
                 {"threads", facts.threads},
                 {"shared_bytes", facts.shared_bytes}};
    if (const KernelResources* r = find_kernel(cubin, facts.name)) {
      json["shared_bytes"] = facts.shared_bytes + r->shared_bytes;
      json["registers"] = r->registers;
      json["spill_bytes"] = r->spill_store_bytes + r->spill_load_bytes;
      json["stack_bytes"] = r->stack_bytes;
      json["code_bytes"] = r->code_bytes;
    }
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace smla::core
