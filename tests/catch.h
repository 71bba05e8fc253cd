// Catch2, 2.13 or 3.3 and later, under one name. Adds `SKIP(text << value)` to 2.13, and lets tests/main.cpp
// say on both, in one line at the end of every test executable, how many tests were skipped and why:
//
//   skipped 3: no GPU (x2); mounting is not permitted (x1)
//
// SKIP leaves the test case at once, from any function it calls, on the thread that runs it.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
#define SMLA_TEST_CATCH 3
#else
#include <catch2/catch.hpp>
#define SMLA_TEST_CATCH 2
#endif

#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

namespace smla_test {

#if SMLA_TEST_CATCH == 3
using Catch::Approx;
#else
using Catch::Detail::Approx;  // Catch::Approx is a matcher of vectors there
#endif

// Counts one skipped test; defined in tests/main.cpp.
void record_skip(const std::string& reason);

// Has `line` called at the end of the executable and what it returns printed, unless it is empty.
void print_at_end(std::string (*line)());

[[noreturn]] inline void skip(const std::string& reason) {
  record_skip(reason);
#if SMLA_TEST_CATCH == 3
  SKIP(reason);
  std::abort();  // SKIP has thrown; the compiler does not know
#else
  // Catch2 2.13 takes this exception for a REQUIRE that has already been counted as failed, and leaves the
  // test case without counting anything of its own.
  throw Catch::TestFailureException{};
#endif
}

// A matcher for messages: REQUIRE_THAT(text, contains("NVRTC")).
inline auto contains(const std::string& text) {
#if SMLA_TEST_CATCH == 3
  return Catch::Matchers::ContainsSubstring(text);
#else
  return Catch::Matchers::Contains(text);
#endif
}

}  // namespace smla_test

#undef SKIP
#define SKIP(...) \
  ::smla_test::skip(static_cast<std::ostringstream&&>(std::ostringstream() << __VA_ARGS__).str())
