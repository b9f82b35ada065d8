#pragma once

// The kernels of one type and head dim, as the launch needs to know them.

#include <cstdint>

#include "backends/sm80/shapes.hpp"

namespace ragged::sm80 {

struct Kernel {
  const void* function = nullptr;  // __global__ void(KernelArgs)
  int threads = 0;
  int smem_bytes = 0;  // dynamic
};

struct KernelSet {
  Kernel kernels[kNumVariants];  // by Variant; those that a type lacks are empty
};

}  // namespace ragged::sm80
