// What smla-bench measured of a call, and how it says so.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "device_limits.h"
#include "json_report.h"
#include "plan/launches.h"
#include "plan/lengths.h"
#include "plan/order.h"
#include "plan/plan.h"
#include "reference/inputs.h"
#include "timing.h"

namespace smla::core {

struct KernelTiming {
  Launch launch;
  Timing timing;
};

// Of one call, in microseconds.
struct HostTime {
  double call = 0;      // run(): checks, arguments and launches
  double launches = 0;  // the launches alone, which is the driver's time
};

// What was measured of one call.
struct BenchResult {
  ListKind lists = ListKind::random;
  Lengths lengths;
  Order order;
  std::size_t workspace_bytes = 0;
  Timing call;
  std::vector<KernelTiming> kernels;
  std::vector<MeasuredLimit> limits;
  std::optional<LeastTime> least;  // where limits were measured; else
  std::optional<double> floor;     // milliseconds, of the H200
  HostTime host;
  std::vector<CheckedTensor> checked;

  bool passed() const {
    for (const CheckedTensor& tensor : checked) {
      if (!tensor.passed()) return false;
    }
    return true;
  }
};

std::string text_report(const Plan& plan, const BenchResult& result);
Json json_report(const Plan& plan, const BenchResult& result);

}  // namespace smla::core
