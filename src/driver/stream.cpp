#include "driver/stream.h"

#include "driver/driver.h"

namespace smla::core {

Stream::Stream() {
  check(driver().stream_create(&handle_, cuda::kStreamNonBlocking), "cuStreamCreate");
}

Stream::~Stream() {
  if (const Driver* d = live_driver(); d != nullptr && handle_ != nullptr) d->stream_destroy(handle_);
}

Event::Event() {
  check(driver().event_create(&handle_, cuda::kEventDefault), "cuEventCreate");
}

Event::~Event() {
  if (const Driver* d = live_driver(); d != nullptr && handle_ != nullptr) d->event_destroy(handle_);
}

void synchronize(cuda::Stream stream) {
  check(driver().stream_synchronize(stream), "cuStreamSynchronize");
}

void synchronize(const Event& event) {
  check(driver().event_synchronize(event.handle()), "cuEventSynchronize");
}

void record(const Event& event, cuda::Stream stream) {
  check(driver().event_record(event.handle(), stream), "cuEventRecord");
}

void wait(cuda::Stream stream, const Event& event) {
  check(driver().stream_wait_event(stream, event.handle(), 0), "cuStreamWaitEvent");
}

float milliseconds(const Event& begin, const Event& end) {
  float elapsed = 0;
  check(driver().event_elapsed_time(&elapsed, begin.handle(), end.handle()), "cuEventElapsedTime");
  return elapsed;
}

bool is_capturing(cuda::Stream stream) {
  int status = cuda::kCaptureNone;
  const cuda::Result result = driver().stream_is_capturing(stream, &status);
  if (result == cuda::kErrorStreamCaptureImplicit)
    return true;  // the default stream, while a blocking one is captured
  check(result, "cuStreamIsCapturing");
  return status != cuda::kCaptureNone;
}

void begin_capture(cuda::Stream stream) {
  check(driver().stream_begin_capture(stream, cuda::kCaptureGlobal), "cuStreamBeginCapture");
}

CapturedGraph end_capture(cuda::Stream stream) {
  CapturedGraph captured;
  check(driver().stream_end_capture(stream, &captured.graph_), "cuStreamEndCapture");
  check(driver().graph_instantiate(&captured.instance_, captured.graph_, 0), "cuGraphInstantiate");
  return captured;
}

CapturedGraph::~CapturedGraph() {
  if (const Driver* d = live_driver(); d != nullptr && instance_ != nullptr) d->graph_exec_destroy(instance_);
  if (const Driver* d = live_driver(); d != nullptr && graph_ != nullptr) d->graph_destroy(graph_);
}

void CapturedGraph::launch(cuda::Stream stream) const {
  check(driver().graph_launch(instance_, stream), "cuGraphLaunch");
}

}  // namespace smla::core
