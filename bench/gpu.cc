#include "bench/gpu.hpp"

#include <cuda_runtime_api.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "bench/gpu_check.hpp"

namespace ragged::bench {
namespace {

constexpr int kLeastReplays = 3;
constexpr int kMostReplays = 10;
constexpr double kMostBurstUs = 60e3;
constexpr double kLeastSampleUs = 500.0;  // shorter replays are timed together

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "making an event"); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
  }
  void record(void* stream) const {
    check(cudaEventRecord(event_, static_cast<cudaStream_t>(stream)), "recording an event");
  }
  // Microseconds from `earlier` to this; waits for this.
  [[nodiscard]] double since(const Event& earlier) const {
    check(cudaEventSynchronize(event_), "work on the GPU");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, earlier.event_, event_), "the time between events");
    return 1e3 * static_cast<double>(ms);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

GpuBuffer::GpuBuffer(std::size_t bytes) {
  check(cudaMalloc(&data_, bytes > 0 ? bytes : 1), "allocating device memory");
}

GpuBuffer::~GpuBuffer() { static_cast<void>(cudaFree(data_)); }

void poison(void* data, std::size_t bytes) {
  check(cudaMemset(data, 0xff, bytes), "filling device memory");
}

struct GpuTimer::Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ~Graph() {
    if (exec != nullptr) static_cast<void>(cudaGraphExecDestroy(exec));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }
  void replay(void* stream) const {
    check(cudaGraphLaunch(exec, static_cast<cudaStream_t>(stream)), "replaying a graph");
  }
};

GpuTimer::GpuTimer(int index) : index_(index) {
  check(cudaSetDevice(index_), "choosing a GPU");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  stream_ = stream;
}

GpuTimer::~GpuTimer() {
  graph_.reset();
  static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream_)));
}

void GpuTimer::synchronize() const {
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), "work on the GPU");
}

double GpuTimer::time_us(const std::function<void()>& body) const {
  const Event begin;
  const Event end;
  begin.record(stream_);
  body();
  end.record(stream_);
  return end.since(begin);
}

void GpuTimer::capture(const std::function<void()>& body) {
  graph_ = std::make_unique<Graph>();
  const auto stream = static_cast<cudaStream_t>(stream_);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
  body();
  check(cudaStreamEndCapture(stream, &graph_->graph), "capturing a graph");
  check(cudaGraphInstantiate(&graph_->exec, graph_->graph, 0), "instantiating a graph");
  check(cudaGraphUpload(graph_->exec, stream), "uploading a graph");
  synchronize();
}

std::vector<double> GpuTimer::burst_us(double idle_seconds) const {
  synchronize();
  std::this_thread::sleep_for(std::chrono::duration<double>(idle_seconds));
  graph_->replay(stream_);
  std::vector<double> times;
  double total = 0;
  while (std::ssize(times) < kMostReplays &&
         (std::ssize(times) < kLeastReplays || total < kMostBurstUs)) {
    times.push_back(time_us([this] { graph_->replay(stream_); }));
    total += times.back();
  }
  return times;
}

std::vector<double> GpuTimer::sustained_us(double seconds) const {
  synchronize();
  const double once = time_us([this] { graph_->replay(stream_); });
  const int together = once > 0 ? 1 + static_cast<int>(kLeastSampleUs / once) : 1;
  const int samples = 2 + static_cast<int>(seconds * 1e6 / (once * together));
  std::vector<Event> events(static_cast<std::size_t>(samples) + 1);
  events.front().record(stream_);
  for (std::size_t i = 1; i < events.size(); ++i) {
    for (int n = 0; n < together; ++n) graph_->replay(stream_);
    events[i].record(stream_);
  }
  std::vector<double> times;
  for (std::size_t i = events.size() / 2; i < events.size(); ++i) {
    times.push_back(events[i].since(events[i - 1]) / together);
  }
  return times;
}

}  // namespace ragged::bench
