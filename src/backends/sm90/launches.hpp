#pragma once

// The kernels of this build behind plain functions.

#include <cstdint>

#include "backends/sm90/kernels.hpp"
#include "device/attention_args.hpp"

namespace ragged::sm90 {

// Both return a cudaError_t as int. max_items: for shape.max_units.
struct KernelLaunch {
  int (*prepare)() = nullptr;
  int (*launch)(const device::AttentionArgs& args, const Rules& rules, std::int64_t max_items,
                const LaunchShape& shape) = nullptr;
};

// Of one head dim and Tile::variant; half: fp16, not bf16. Empty where the build lacks it. Defined
// in a file for each head dim.
template <int kDim>
KernelLaunch kernel_launch_of(int variant, bool half);

}  // namespace ragged::sm90
