#pragma once

// The kernels of one head dim, both dtypes. Each head dim is compiled in a file of its own.

#include "backends/sm90/builds.hpp"
#include "backends/sm90/launches.hpp"
#include "backends/sm90/long_launch.cuh"
#include "backends/sm90/short_launch.cuh"

namespace ragged::sm90 {

template <class Shape>
KernelLaunch long_kernel() {
  return {prepare_long<Shape>, [](const device::AttentionArgs& args, int rule,
                                  std::int64_t max_items, int sm_count, void* stream) {
            return launch_long<Shape>(args, rule, max_items, sm_count,
                                      static_cast<cudaStream_t>(stream));
          }};
}

template <class Shape>
KernelLaunch short_kernel() {
  return {prepare_short<Shape>, [](const device::AttentionArgs& args, int rule,
                                   std::int64_t max_items, int /*sm_count*/, void* stream) {
            return launch_short<Shape>(args, rule, max_items, static_cast<cudaStream_t>(stream));
          }};
}

template <class T, int kDim>
KernelLaunch kernel_of(Kernel kernel) {
  if (kernel == Kernel::long_segments) {
    constexpr LongBuild kBuild = *long_build(kDim);
    return long_kernel<
        LongShape<T, kDim, kBuild.consumers, kBuild.keys, kBuild.stages, kBuild.query_slots>>();
  }
  if constexpr (short_build(kDim) != nullptr) {
    constexpr ShortBuild kBuild = *short_build(kDim);
    return short_kernel<ShortShape<T, kDim, kBuild.keys, kBuild.tiles, kBuild.blocks>>();
  }
  return {};
}

template <int kDim>
KernelLaunch kernel_launch_of(Kernel kernel, bool half) {
  return half ? kernel_of<__half, kDim>(kernel) : kernel_of<__nv_bfloat16, kDim>(kernel);
}

}  // namespace ragged::sm90
