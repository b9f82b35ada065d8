#pragma once

// The launch of the prologue: plain C++, defined by CUDA code.

#include <cstdint>

#include "device/step_args.hpp"

namespace ragged::device {

// Offsets that travel with the launch, as parameters of a kernel: int32 words, copied to device
// memory before the table is made.
struct Words {
  const std::int32_t* data = nullptr;  // host memory, read before the call returns
  std::int32_t* to = nullptr;          // device memory, aligned to 16 bytes
  std::int64_t count = 0;
};

// Words that one launch carries along with the prologue.
inline constexpr std::int64_t kMostInlineWords = 7680;

// Loads the kernels onto the current device. A cudaError_t as int.
int prepare_prologue();

// Makes the table of `args` on the current device, in the order of `stream` (cudaStream_t). Nothing
// of the launch depends on anything but num_segments, or `max_segments` where that is not 0
// (capacity mode), and the number of words. A cudaError_t as int.
int launch_prologue(const StepArgs& args, const Words& words, std::int64_t max_segments,
                    int sm_count, void* stream);

}  // namespace ragged::device
