#pragma once

// The two products of a step: scores = Q K^T from shared memory, out += weights V with the weights
// in registers.

#include <cstdint>

#include "backends/sm90/ptx.cuh"
#include "backends/sm90/shape.cuh"
#include "backends/sm90/wgmma.cuh"

namespace ragged::sm90 {

// How an operand lies in shared memory: panels of [rows][panel columns] swizzled at the panel's
// width. Fields in units of 16 bytes: address, `leading` = from one panel to the next where a
// product spans several, `stride` = from 8 rows to the next 8.
template <class Shape>
__device__ __forceinline__ std::uint64_t operand(SharedAddress address, int leading_bytes) {
  constexpr std::uint64_t swizzle = Shape::panel == 64 ? 1 : Shape::panel == 32 ? 2 : 3;
  constexpr std::uint64_t stride = 8 * Shape::panel_row_bytes / 16;
  return swizzle << 62 | stride << 32 | static_cast<std::uint64_t>(leading_bytes / 16) << 16 |
         (address & 0x3ffff) >> 4;
}

// A product takes 16 columns of Q and K: where they lie, in units of 16 bytes.
template <class Shape>
__device__ constexpr std::uint64_t columns_at(int step, int panel_bytes) {
  return static_cast<std::uint64_t>(step * 16 / Shape::panel * panel_bytes +
                                    step * 16 % Shape::panel * 2) /
         16;
}

template <class Shape>
__device__ __forceinline__ void issue_scores(float (&scores)[Shape::keys / 2],
                                             SharedAddress queries, SharedAddress keys) {
  using T = typename Shape::Element;
  using Product = Scores<Shape::keys>;
  const std::uint64_t q = operand<Shape>(queries, 16);
  const std::uint64_t k = operand<Shape>(keys, 16);
  products_begin();
  Product::template start<T>(scores, q, k);
#pragma unroll
  for (int step = 1; step < Shape::panels * Shape::panel / 16; ++step) {
    Product::template add<T>(scores, q + columns_at<Shape>(step, Shape::query_panel_bytes),
                             k + columns_at<Shape>(step, Shape::key_panel_bytes));
  }
  products_end();
}

template <class Shape>
__device__ __forceinline__ void issue_values(float (&out)[Shape::dim / 2],
                                             std::uint32_t (&weights)[Shape::keys / 4],
                                             SharedAddress values) {
  using T = typename Shape::Element;
  const std::uint64_t v = operand<Shape>(values, Shape::key_panel_bytes);
  hold(out);
  hold(weights);
  products_begin();
#pragma unroll
  for (int step = 0; step < Shape::keys / 16; ++step) {
    const std::uint64_t at = v + step * 16 * Shape::panel_row_bytes / 16;
    Values<Shape::dim>::template add<T>(out, weights[4 * step], weights[4 * step + 1],
                                        weights[4 * step + 2], weights[4 * step + 3], at);
  }
  products_end();
}

// Clears rows [rows, keys) of a step's values, which may belong to another segment: 0 x NaN is NaN.
// Every warpgroup does it for itself. All its threads come here.
template <class Shape>
__device__ __forceinline__ void clear_values(SharedAddress values, int rows, int group) {
  constexpr int kChunks = Shape::panel_row_bytes / 16;
  const int chunks = (Shape::keys - rows) * kChunks;
  for (int panel = 0; panel < Shape::panels; ++panel) {
    const SharedAddress first =
        values + panel * Shape::key_panel_bytes + rows * Shape::panel_row_bytes;
    for (int i = threadIdx.x % 128; i < chunks; i += 128) store_zeros(first + 16 * i);
  }
  shared_writes_fence();
  named_sync(kGroupBarrier + group, 128);
}

}  // namespace ragged::sm90
