// The CUDA driver is opened at first use, and its absence is a sentence. Each test is a process of its own: a
// process opens the driver once.
#include "driver/driver.h"

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "catch.h"
#include "child.h"
#include "driver/device.h"
#include "driver/memory.h"
#include "driver/stream.h"

using namespace smla::core;
using smla_test::contains;
using smla_test::in_child;

TEST_CASE("a missing driver is reported with every name that was tried") {
  const auto child = in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    try {
      driver();
    } catch (const Error& error) {
      return std::string(status_name(error.status())) + "; " + error.what();
    }
    return "opened";
  });
  CHECK_THAT(child.output,
             contains("no driver; smla: the CUDA driver was not found; tried /nowhere/libcuda.so.1 (") &&
                 contains("SMLA_LIBCUDA can name the file"));
}

TEST_CASE("a library that is not the driver is refused by what it lacks") {
  const auto child = in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_NVRTC, 1);
    driver();
    return "opened";
  });
  CHECK_THAT(child.output, contains("is not the CUDA driver: it has no cuInit"));
}

TEST_CASE("the driver can be opened after a first failure") {
  const auto child = in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    std::string why;
    if (driver_available(&why) || why.find("/nowhere") == std::string::npos) return "found: " + why;
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    return driver_available() ? driver().library : "still missing";
  });
  CHECK(child.output == SMLA_FAKE_LIBCUDA);
}

TEST_CASE("a device is described, and one that is not there is refused with how many are") {
  const auto child = in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    const DeviceProperties p = device_properties(1);
    if (p.name != "Fake H200" || p.compute_major != 9 || p.multiprocessors != 132 || p.ordinal != 1 ||
        p.l2_bytes != std::size_t{60} << 20 || p.shared_memory_limit != 232448) {
      return "other properties";
    }
    device_properties(2);
    return "device 2 was found";
  });
  CHECK(child.output == "smla: device = 2: this process sees 2 GPUs");
}

TEST_CASE("being current on a device pushes its primary context once and leaves the thread as it was") {
  const auto child = in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    if (current_device() != 0) return "no context is device 0";
    const CurrentDevice outer(1);
    if (current_device() != 1) return "outer";
    {
      const CurrentDevice same(1);
      const CurrentDevice inner(0);
      if (current_device() != 0) return "inner";
    }
    return current_device() == 1 ? "restored" : "not restored";
  });
  CHECK(child.output == "restored");
}

TEST_CASE("a refused call is an error with the driver's name and words") {
  const auto child = in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    const DeviceBuffer buffer(12345);
    return "allocated";
  });
  CHECK_THAT(child.output, contains("cuMemAlloc(12345 bytes): CUDA_ERROR_") && contains("(2), "));
}

TEST_CASE("C55: a process that only loaded smla may fork and use the driver in the child") {
  // The children of all tests here are that case: this process never opened the driver.
  const auto child = in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    return std::to_string(device_count());
  });
  CHECK(child.output == "2");
  CHECK(live_driver() == nullptr);
}

TEST_CASE("C55: after the driver was initialised a forked child gets an error instead of a hang") {
  const auto child = in_child([]() -> std::string {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    driver();
    const auto grandchild = in_child([]() -> std::string {
      if (live_driver() != nullptr) return "the child's destructors would call the driver";
      driver();
      return "the child used the driver";
    });
    return grandchild.output;
  });
  CHECK_THAT(child.output, contains("forked after its parent had initialised the CUDA driver"));
}
