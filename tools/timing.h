// How a benchmark measures: CUDA events, 256 MiB written before every launch so that L2 holds nothing of it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "driver/cuda_abi.h"

namespace smla::core {

// Milliseconds. A GPU at rest is cool and clocks high; under load it settles where its power limit lets it,
// which is what training sees. Both are told, since either alone misleads.
struct Timing {
  double cool = 0;     // the fastest of the first launches after a rest
  double steady = 0;   // the median of the last launches
  double slowest = 0;  // of the last launches
};

struct TimingOptions {
  double rest_seconds = 1;  // idle before the first launch
  double load_seconds = 3;  // launches go on for at least this long
  int first = 10;           // launches that count for `cool`
  int last = 25;            // launches that count for `steady`
};

// Measures what `enqueue` puts on the stream, in segments: it calls its argument, mark, at the end of each of
// `segments` segments. Returns a Timing for each segment. `enqueue` has run at least once before.
std::vector<Timing> measure(cuda::Stream stream, std::size_t segments,
                            const std::function<void(const std::function<void()>& mark)>& enqueue,
                            const TimingOptions& options = {});

// Host time of one `enqueue`, in microseconds: the median of `calls` of them by a steady clock. The stream is
// emptied after every 32, so that none of them waits for room in it. Meant for work that the device does
// about as fast as it comes: behind milliseconds of it the host comes back from each wait with cold caches.
double host_microseconds(cuda::Stream stream, const std::function<void()>& enqueue, int calls = 1001);

}  // namespace smla::core
