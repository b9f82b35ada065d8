#include "gpu/cuda_support.hpp"

#include <stdexcept>

namespace ragged::test {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

CudaStream::CudaStream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaStream::synchronize() const { check(cudaStreamSynchronize(stream_), "a stream's work"); }

bool CudaStream::idle() const {
  const cudaError_t status = cudaStreamQuery(stream_);
  if (status == cudaErrorNotReady) return false;
  check(status, "a stream's work");
  return true;
}

CudaGraph::CudaGraph(const CudaStream& stream, const std::function<void()>& body) {
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "capturing");
  try {
    body();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream.get(), &graph_));
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
    throw;
  }
  check(cudaStreamEndCapture(stream.get(), &graph_), "capturing");
  check(cudaGraphGetNodes(graph_, nullptr, &num_nodes_), "a graph's nodes");
  check(cudaGraphInstantiate(&exec_, graph_, 0), "instantiating a graph");
}

CudaGraph::~CudaGraph() {
  if (exec_ != nullptr) static_cast<void>(cudaGraphExecDestroy(exec_));
  if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
}

void CudaGraph::replay(const CudaStream& stream) const {
  check(cudaGraphLaunch(exec_, stream.get()), "replaying a graph");
}

int num_cuda_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace ragged::test
