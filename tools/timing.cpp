#include "timing.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "driver/memory.h"
#include "driver/stream.h"

namespace smla::core {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{256}
                                    << 20;  // several times the L2 of any GPU that is supported

Timing summary(std::vector<double> milliseconds, const TimingOptions& options) {
  const auto first = std::min(milliseconds.size(), static_cast<std::size_t>(options.first));
  const auto last = std::min(milliseconds.size(), static_cast<std::size_t>(options.last));
  Timing timing;
  timing.cool =
      *std::min_element(milliseconds.begin(), milliseconds.begin() + static_cast<std::ptrdiff_t>(first));
  std::sort(milliseconds.end() - static_cast<std::ptrdiff_t>(last), milliseconds.end());
  timing.steady = *(milliseconds.end() - static_cast<std::ptrdiff_t>(last / 2 + 1));
  timing.slowest = milliseconds.back();
  return timing;
}

}  // namespace

std::vector<Timing> measure(cuda::Stream stream, std::size_t segments,
                            const std::function<void(const std::function<void()>& mark)>& enqueue,
                            const TimingOptions& options) {
  const DeviceBuffer flush(kFlushBytes);
  const std::vector<Event> events(segments + 1);
  std::vector<std::vector<double>> samples(segments);
  std::this_thread::sleep_for(std::chrono::duration<double>(options.rest_seconds));

  const auto began = std::chrono::steady_clock::now();
  const auto load = std::chrono::duration<double>(options.load_seconds);
  const auto least = static_cast<std::size_t>(options.first + options.last);
  for (std::size_t launch = 0; launch < least || std::chrono::steady_clock::now() - began < load; ++launch) {
    fill(flush.data(), static_cast<unsigned char>(launch), flush.bytes(), stream);
    record(events[0], stream);
    std::size_t marked = 0;
    enqueue([&] {
      if (marked == segments) fail(Status::internal_error, "more than {} segments were marked", segments);
      record(events[++marked], stream);
    });
    if (marked != segments) fail(Status::internal_error, "{} of {} segments were marked", marked, segments);
    synchronize(events[segments]);
    for (std::size_t s = 0; s < segments; ++s) {
      samples[s].push_back(static_cast<double>(milliseconds(events[s], events[s + 1])));
    }
  }

  std::vector<Timing> timings;
  for (std::vector<double>& segment : samples) timings.push_back(summary(std::move(segment), options));
  return timings;
}

double host_microseconds(cuda::Stream stream, const std::function<void()>& enqueue, int calls) {
  constexpr int kInFlight = 32;  // at most 128 launches: a stream takes some 1000 before a launch waits
  std::vector<double> samples;
  for (int i = 0; i < calls; ++i) {
    if (i % kInFlight == 0) synchronize(stream);
    const auto begin = std::chrono::steady_clock::now();
    enqueue();
    samples.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  synchronize(stream);
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace smla::core
