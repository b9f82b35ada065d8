#pragma once

// The current device of this thread, and its captures, set for a scope. CUDA code of the device
// room and its backends.

#include <cuda_runtime_api.h>

#include <string>

#include <ragged/error.hpp>

namespace ragged::device {

// Throws Error(device), or Error(out_of_memory), naming what was tried and the runtime's words. The
// runtime forgets an error once it is asked; one that an earlier kernel left behind stays.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device;
  throw Error(code, std::string(what) + ": " + cudaGetErrorString(status));
}

class CurrentDevice {
 public:
  explicit CurrentDevice(int index) {
    check(cudaGetDevice(&before_), "the current CUDA device");
    // Also where it is current already: a thread that has called nothing yet has no context, and
    // tensor maps cannot be made without one.
    check(cudaSetDevice(index), "making a CUDA device current");
    changed_ = before_ != index;
  }
  ~CurrentDevice() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

// Allocating is refused to a thread that captures in the global mode, and to every other one beside
// it; nothing in the scope of this is part of a graph.
class OutsideCaptures {
 public:
  OutsideCaptures() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~OutsideCaptures() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  OutsideCaptures(const OutsideCaptures&) = delete;
  OutsideCaptures& operator=(const OutsideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace ragged::device
