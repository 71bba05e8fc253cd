// The C API over the rooms. Everything here is a conversion and a call.
#include "smla/smla.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "api/convert.h"
#include "api/last_error.h"
#include "api/sized.h"
#include "base/log.h"
#include "driver/device.h"
#include "plan/plan.h"
#include "plan/prepare.h"

#define SMLA_TEXT_OF(value) #value
#define SMLA_TEXT(value) SMLA_TEXT_OF(value)

struct smla_plan {
  std::shared_ptr<const smla::core::Plan> plan;
  std::once_flag described;
  std::string description;  // made when it is first asked for
};

namespace core = smla::core;

namespace {

const core::Plan& checked(const smla_plan* plan) {
  if (plan == nullptr) core::fail(core::Status::invalid_argument, "plan is null");
  return *plan->plan;
}

template <class T>
void check_destination(const T* to, const char* what) {
  if (to == nullptr) core::fail(core::Status::invalid_argument, "{} is null", what);
}

core::Arch to_arch(const char* arch) {
  if (arch == nullptr) core::fail(core::Status::invalid_argument, "arch is null");
  return core::parse_arch(arch);
}

void copy_text(std::string_view text, char* to, std::size_t bytes) {
  if (to == nullptr || bytes == 0) return;
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

const char* smla_version(void) {
  return SMLA_TEXT(SMLA_VERSION_MAJOR) "." SMLA_TEXT(SMLA_VERSION_MINOR) "." SMLA_TEXT(SMLA_VERSION_PATCH);
}

const char* smla_status_name(int status) {
  return core::status_name(static_cast<core::Status>(status)).data();  // of literals
}

const char* smla_last_error(void) {
  return core::last_error();
}

void smla_set_log(smla_log_callback callback, void* user) {
  core::guarded([&] {
    if (callback == nullptr) {
      core::set_log_sink({});
      return;
    }
    core::set_log_sink([callback, user](core::LogLevel level, std::string_view message) {
      callback(user, static_cast<smla_log_level>(level), std::string(message).c_str());
    });
  });
}

void smla_problem_init_sized(smla_problem* problem, size_t struct_size) {
  if (problem != nullptr) core::write_sized(problem, struct_size, core::default_problem());
}

void smla_config_init_sized(smla_config* config, size_t struct_size) {
  if (config != nullptr) core::write_sized(config, struct_size, core::default_config());
}

smla_status smla_call_init_sized(smla_call* call, size_t struct_size, const smla_problem* problem,
                                 int64_t batch, int64_t queries, int64_t keys, int64_t topk) {
  return core::guarded([&] {
    check_destination(call, "call");
    const smla_lengths lengths = {batch, queries, keys, topk, SMLA_ORDER_AUTO, {0, 0, 0}};
    core::write_sized(call, struct_size, core::default_call(problem, lengths));
  });
}

float smla_default_scale(const smla_problem* problem) {
  float scale = 0;
  core::guarded([&] {
    const core::Problem p = core::to_problem(problem);
    core::validate(p);
    scale = core::default_scale(p);
  });
  return scale;
}

smla_status smla_supported(const smla_problem* problem, const smla_config* config, const char* arch,
                           char* why, size_t why_bytes) {
  const smla_status status = core::guarded([&] {
    const core::Problem p = core::to_problem(problem);
    core::validate(p);
    const core::Choice choice = core::choose_config(p, to_arch(arch), core::to_request(config));
    std::string sentences;
    for (const std::string& sentence : choice.why) sentences += (sentences.empty() ? "" : "\n") + sentence;
    copy_text(sentences, why, why_bytes);
  });
  if (status != SMLA_SUCCESS) copy_text(core::last_error(), why, why_bytes);
  return status;
}

smla_status smla_prepare(const smla_problem* problem, const smla_config* config, const char* arch,
                         int* built) {
  return core::guarded([&] {
    const core::Problem p = core::to_problem(problem);
    core::validate(p);
    const core::Arch a = to_arch(arch);
    const core::Config c = core::choose_config(p, a, core::to_request(config)).config;
    const auto built_now = [&](const core::Problem& wanted) {
      const bool known = core::find_prepared(wanted, c, a) != nullptr;
      return core::prepare(wanted, c, a)->source == core::CacheSource::built && !known;
    };
    bool any = built_now(p);
    if (p.accumulate == core::Accumulate::partial) any = built_now(core::with_fp32_sums(p)) || any;
    if (built != nullptr) *built = any ? 1 : 0;
  });
}

smla_status smla_plan_create(smla_plan** plan, const smla_problem* problem, const smla_config* config,
                             int device, void* stream) {
  if (plan != nullptr) *plan = nullptr;
  return core::guarded([&] {
    check_destination(plan, "plan");
    const core::Problem p = core::to_problem(problem);
    const core::ConfigRequest request = core::to_request(config);
    core::validate(p);
    if (device < -1)
      core::fail(core::Status::invalid_argument, "device = {} is below -1, the current one", device);
    std::optional<core::cuda::Stream> looked_at;
    if (stream != nullptr) looked_at = static_cast<core::cuda::Stream>(stream);
    auto made = std::make_unique<smla_plan>();
    made->plan = core::create_plan(p, request, device == -1 ? core::current_device() : device, looked_at);
    *plan = made.release();
  });
}

void smla_plan_destroy(smla_plan* plan) {
  delete plan;
}

const char* smla_plan_describe(smla_plan* plan) {
  const char* text = nullptr;
  core::guarded([&] {
    const core::Plan& p = checked(plan);
    std::call_once(plan->described, [&] { plan->description = core::describe(p); });
    text = plan->description.c_str();
  });
  return text;
}

smla_status smla_workspace_size(const smla_plan* plan, const smla_lengths* lengths, size_t* bytes) {
  return core::guarded([&] {
    const core::Plan& p = checked(plan);
    check_destination(bytes, "bytes");
    const core::LengthsAndOrder n = core::to_lengths(lengths);
    *bytes = static_cast<std::size_t>(core::workspace_size(p, n.lengths, n.order));
  });
}

smla_status smla_lists_size(const smla_plan* plan, const smla_lengths* lengths, size_t* bytes) {
  return core::guarded([&] {
    const core::Plan& p = checked(plan);
    check_destination(bytes, "bytes");
    const core::LengthsAndOrder n = core::to_lengths(lengths);
    *bytes = static_cast<std::size_t>(core::lists_size(p, n.lengths, n.order));
  });
}

smla_status smla_run(const smla_plan* plan, const smla_call* call) {
  return core::guarded([&] { core::run(checked(plan), core::to_call(call)); });
}
