// How the benchmark measures, on a driver that records and runs nothing.
#include "timing.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "catch.h"
#include "child.h"
#include "fake_libcuda.h"

using namespace smla::core;

TEST_CASE("host time is the median call's, and the stream is emptied after every 32") {
  const auto child = smla_test::in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    void* const library = dlopen(SMLA_FAKE_LIBCUDA, RTLD_NOW);
    const auto state = reinterpret_cast<fake_cuda* (*)()>(dlsym(library, "fake_cuda_state"));
    if (state == nullptr) return "no fake driver";
    int calls = 0, most_in_flight = 0, in_flight = 0, waits = 0;
    const double microseconds = host_microseconds(
        nullptr,
        [&] {
          if (state()->waits != waits) in_flight = 0;
          waits = state()->waits;
          most_in_flight = std::max(most_in_flight, ++in_flight);
          ++calls;
          // Four calls in five are short; one is long, and a mean would show it.
          std::this_thread::sleep_for(calls % 5 == 0 ? std::chrono::milliseconds(50)
                                                     : std::chrono::milliseconds(1));
        },
        101);
    const bool median = microseconds >= 1000 && microseconds < 8000;
    return std::to_string(calls) + " calls, " + std::to_string(most_in_flight) + " in flight, " +
           (median ? "median" : std::to_string(microseconds) + " us");
  });
  CHECK(child.output == "101 calls, 32 in flight, median");
}
