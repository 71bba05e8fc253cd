#include "api/last_error.h"

#include <string>

namespace smla::core {
namespace {

constexpr const char* kOutOfMemory = "smla: the host has no memory left";

thread_local std::string text;
thread_local const char* fixed = nullptr;  // a literal, where there was no memory for a text

void remember(const char* message) noexcept {
  try {
    text = message;
  } catch (...) {
    fixed = kOutOfMemory;
  }
}

}  // namespace

const char* last_error() noexcept {
  return fixed != nullptr ? fixed : text.c_str();
}

void clear_last_error() noexcept {
  text.clear();
  fixed = nullptr;
}

smla_status remember_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    remember(error.what());
    return static_cast<smla_status>(error.status());
  } catch (const std::bad_alloc&) {
    fixed = kOutOfMemory;
    return SMLA_INTERNAL_ERROR;
  } catch (const std::exception& error) {
    remember("smla: ");
    try {
      text += error.what();
    } catch (...) {
      fixed = kOutOfMemory;
    }
    return SMLA_INTERNAL_ERROR;
  } catch (...) {
    remember("smla: an unknown exception was thrown");
    return SMLA_INTERNAL_ERROR;
  }
}

}  // namespace smla::core
