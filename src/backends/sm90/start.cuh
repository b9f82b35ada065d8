#pragma once

// Starts a kernel on a stream, after what came before or, where the launch says so, beside it.

#include <cuda_runtime.h>

#include "backends/sm90/kernels.hpp"

namespace ragged::sm90 {

// A cudaError_t as int.
template <class... Parameters, class... Arguments>
int start(void (*kernel)(Parameters...), unsigned blocks, int threads, int shared_bytes,
          const LaunchShape& shape, const Arguments&... arguments) {
  cudaLaunchAttribute beside{};
  beside.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  beside.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = static_cast<cudaStream_t>(shape.stream);
  config.attrs = &beside;
  config.numAttrs = shape.beside_previous ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace ragged::sm90
