// What choosing launches has to know of a device and of the kernels on it; plain values, so that all of it
// can be computed and tested without one.
#pragma once

namespace smla::core {

struct DeviceFacts {
  int multiprocessors = 0;
  int ctas_in_flight = 0;  // backward CTAs that the device runs at once
  int sort_shared_limit =
      0;  // dynamic shared memory that the sort_lists kernel may ask for, bytes; 0: no such kernel

  bool operator==(const DeviceFacts&) const = default;
};

}  // namespace smla::core
