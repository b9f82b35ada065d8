#pragma once

// All kernels of one 16-bit type and one padded head dim.

#include "backends/sm80/kernel_set.hpp"
#include "backends/sm80/short.cuh"
#include "backends/sm80/walk.cuh"

namespace ragged::sm80 {

template <class T, int kDim, Variant kVariant>
Kernel walk_of() {
  constexpr WalkShape kShape = walk_shape(kVariant, kDim);
  return {reinterpret_cast<const void*>(&walk_kernel<T, kDim, kVariant>), kShape.threads(),
          walk_smem_bytes(kShape, kDim)};
}

template <class T, int kDim, Variant kVariant>
Kernel short_of() {
  constexpr ShortShape kShape = short_shape(kVariant, kDim);
  return {reinterpret_cast<const void*>(&short_kernel<T, kDim, kVariant>), kShape.threads(),
          short_smem_bytes(kShape, kDim)};
}

template <class T, int kDim>
KernelSet kernel_set() {
  KernelSet set;
  const auto at = [&](Variant variant) -> Kernel& {
    return set.kernels[static_cast<int>(variant)];
  };
  if constexpr (kDim <= kMaxShortDim) {
    at(Variant::short64) = short_of<T, kDim, Variant::short64>();
    at(Variant::short128) = short_of<T, kDim, Variant::short128>();
  }
  at(Variant::few) = walk_of<T, kDim, Variant::few>();
  if constexpr (has_brief(kDim)) at(Variant::brief) = walk_of<T, kDim, Variant::brief>();
  at(Variant::many) = walk_of<T, kDim, Variant::many>();
  return set;
}

}  // namespace ragged::sm80
