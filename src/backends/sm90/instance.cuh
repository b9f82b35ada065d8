#pragma once

// The kernels of one head dim, both dtypes. Each head dim is compiled in a file of its own.

#include "backends/sm90/builds.hpp"
#include "backends/sm90/launches.hpp"
#include "backends/sm90/long_launch.cuh"
#include "backends/sm90/short_launch.cuh"

namespace ragged::sm90 {

template <class Shape>
KernelLaunch long_kernel() {
  return {prepare_long<Shape>, [](const device::AttentionArgs& args, const Rules& rules,
                                  std::int64_t max_items, const LaunchShape& shape) {
            return launch_long<Shape>(args, rules, max_items, shape);
          }};
}

template <class Shape>
KernelLaunch short_kernel() {
  return {prepare_short<Shape>, [](const device::AttentionArgs& args, const Rules& rules,
                                   std::int64_t max_items, const LaunchShape& shape) {
            return launch_short<Shape>(args, rules.last, max_items, shape);
          }};
}

template <class T, int kDim, int kNth = 0>
KernelLaunch kernel_of(int variant) {
  if constexpr (kNth == 0 && short_build(kDim) != nullptr) {
    constexpr ShortBuild kBuild = *short_build(kDim);
    if (variant == kShort) {
      return short_kernel<ShortShape<T, kDim, kBuild.keys, kBuild.tiles, kBuild.blocks>>();
    }
  }
  if constexpr (long_build(kDim, kNth) != nullptr) {
    constexpr LongBuild kBuild = *long_build(kDim, kNth);
    if (variant == kFirstLong + kNth) {
      return long_kernel<LongShape<T, kDim, kBuild.consumers, kBuild.keys, kBuild.stages,
                                   kBuild.query_slots, (kBuild.team_tiles > 0)>>();
    }
    return kernel_of<T, kDim, kNth + 1>(variant);
  }
  return {};
}

template <int kDim>
KernelLaunch kernel_launch_of(int variant, bool half) {
  return half ? kernel_of<__half, kDim>(variant) : kernel_of<__nv_bfloat16, kDim>(variant);
}

}  // namespace ragged::sm90
