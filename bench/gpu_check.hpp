#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace ragged::bench {

// Throws std::runtime_error with what was tried and the runtime's words.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace ragged::bench
