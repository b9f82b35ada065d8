#pragma once

// What the tests of a GPU need of CUDA, as owners.

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include <ragged/run.hpp>

namespace ragged::test {

// Throws std::runtime_error with what was tried and the runtime's words.
void check(cudaError_t status, const char* what);

// A stream that the legacy default stream does not wait for, nor the other way round.
class CudaStream {
 public:
  CudaStream();
  CudaStream(CudaStream&& other) noexcept : stream_(other.stream_) { other.stream_ = nullptr; }
  CudaStream& operator=(CudaStream&&) = delete;
  ~CudaStream();
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  [[nodiscard]] Stream handle() const { return {stream_}; }
  void synchronize() const;
  // False while work is left.
  [[nodiscard]] bool idle() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// One captured graph, instantiated.
class CudaGraph {
 public:
  // Captures what `body` starts on the stream.
  CudaGraph(const CudaStream& stream, const std::function<void()>& body);
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph();
  void replay(const CudaStream& stream) const;
  // Nodes of all kinds.
  [[nodiscard]] std::size_t num_nodes() const { return num_nodes_; }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  std::size_t num_nodes_ = 0;
};

// Keeps the stream busy for so long, with one thread.
void spin(const CudaStream& stream, double milliseconds);

int num_cuda_devices();

}  // namespace ragged::test
