// Streams, events and captured graphs for tools and tests; the library itself uses the caller's stream.
#pragma once

#include <utility>

#include "driver/cuda_abi.h"

namespace smla::core {

class Stream {
 public:
  Stream();  // does not synchronise with the default stream
  ~Stream();
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  cuda::Stream handle() const { return handle_; }

 private:
  cuda::Stream handle_ = nullptr;
};

class Event {
 public:
  Event();  // measures time
  ~Event();
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  cuda::Event handle() const { return handle_; }

 private:
  cuda::Event handle_ = nullptr;
};

void synchronize(cuda::Stream stream);
void synchronize(const Event& event);
void record(const Event& event, cuda::Stream stream);
void wait(cuda::Stream stream, const Event& event);        // later work of the stream runs after the event
float milliseconds(const Event& begin, const Event& end);  // both recorded and reached
bool is_capturing(cuda::Stream stream);                    // also true for an invalidated capture

// What was enqueued on a stream between begin_capture and end_capture, ready to be launched again and again.
class CapturedGraph {
 public:
  ~CapturedGraph();
  CapturedGraph(CapturedGraph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), instance_(std::exchange(other.instance_, nullptr)) {}
  CapturedGraph& operator=(CapturedGraph&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(instance_, other.instance_);
    return *this;
  }
  void launch(cuda::Stream stream) const;

 private:
  friend CapturedGraph end_capture(cuda::Stream stream);
  CapturedGraph() = default;
  cuda::Graph graph_ = nullptr;
  cuda::GraphExec instance_ = nullptr;
};

void begin_capture(cuda::Stream stream);
CapturedGraph end_capture(cuda::Stream stream);

}  // namespace smla::core
