#pragma once

// The two products of a step: scores = Q K^T from shared memory, out += weights V with the weights
// in registers.

#include <cstdint>

#include "backends/sm90/ptx.cuh"
#include "backends/sm90/shape.cuh"
#include "backends/sm90/wgmma.cuh"

namespace ragged::sm90 {

// How an operand lies in shared memory: panels of [rows][kPanel columns] swizzled at the panel's
// width. Fields in units of 16 bytes: address, `leading` = from one panel to the next where a
// product spans several, `stride` = from 8 rows to the next 8.
template <int kPanel>
__device__ __forceinline__ std::uint64_t operand(SharedAddress address, int leading_bytes) {
  constexpr std::uint64_t swizzle = kPanel == 64 ? 1 : kPanel == 32 ? 2 : 3;
  constexpr std::uint64_t stride = 8 * kPanel * 2 / 16;
  return swizzle << 62 | stride << 32 | static_cast<std::uint64_t>(leading_bytes / 16) << 16 |
         (address & 0x3ffff) >> 4;
}

// A product takes 16 columns of Q and K: where they lie, in units of 16 bytes.
template <int kPanel>
__device__ constexpr std::uint64_t columns_at(int step, int panel_bytes) {
  return static_cast<std::uint64_t>(step * 16 / kPanel * panel_bytes + step * 16 % kPanel * 2) / 16;
}

// Scores of kKeys keys from row `row` of those at `keys` on; `row` is a multiple of 16.
template <class Shape, int kKeys>
__device__ __forceinline__ void issue_scores(float (&scores)[kKeys / 2], SharedAddress queries,
                                             SharedAddress keys, int row = 0) {
  using T = typename Shape::Element;
  using Product = Scores<kKeys>;
  const std::uint64_t q = operand<Shape::panel>(queries, 16);
  const std::uint64_t k = operand<Shape::panel>(keys + row * Shape::panel_row_bytes, 16);
  products_begin();
  Product::template start<T>(scores, q, k);
#pragma unroll
  for (int step = 1; step < Shape::main / 16; ++step) {
    Product::template add<T>(scores, q + columns_at<Shape::panel>(step, Shape::query_panel_bytes),
                             k + columns_at<Shape::panel>(step, Shape::key_panel_bytes));
  }
  if constexpr (Shape::tail > 0) {
    const std::uint64_t q_tail = operand<Shape::tail>(queries + Shape::query_tail_at, 16);
    const std::uint64_t k_tail =
        operand<Shape::tail>(keys + Shape::key_tail_at + row * Shape::tail_row_bytes, 16);
#pragma unroll
    for (int step = 0; step < (Shape::rest + 15) / 16; ++step) {
      Product::template add<T>(scores, q_tail + 2 * step, k_tail + 2 * step);
    }
  }
  products_end();
}

template <class Shape, int kKeys>
__device__ __forceinline__ void issue_values(float (&out)[Shape::dim / 2],
                                             std::uint32_t (&weights)[kKeys / 4],
                                             SharedAddress values, int row = 0) {
  using T = typename Shape::Element;
  const std::uint64_t v =
      operand<Shape::panel>(values + row * Shape::panel_row_bytes, Shape::key_panel_bytes);
  hold(out);
  hold(weights);
  products_begin();
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
    Values<Shape::main>::template add<T>(
        reinterpret_cast<float(&)[Shape::main / 2]>(out), weights[4 * step], weights[4 * step + 1],
        weights[4 * step + 2], weights[4 * step + 3], v + step * Shape::panel_row_bytes);
    if constexpr (Shape::tail > 0) {
      const std::uint64_t v_tail =
          operand<Shape::tail>(values + Shape::key_tail_at + row * Shape::tail_row_bytes, 16);
      Values<Shape::rest>::template add<T>(
          reinterpret_cast<float(&)[Shape::rest / 2]>(out[Shape::main / 2]), weights[4 * step],
          weights[4 * step + 1], weights[4 * step + 2], weights[4 * step + 3],
          v_tail + step * Shape::tail_row_bytes);
    }
  }
  products_end();
}

// Clears rows [begin, end) of the values at `values`, which may belong to another segment: 0 x NaN
// is NaN. All 128 threads of a warpgroup come here; a barrier of theirs must follow.
template <class Shape>
__device__ __forceinline__ void clear_values(SharedAddress values, int begin, int end) {
  const auto clear = [&](SharedAddress panel, int row_bytes) {
    const int chunks = (end - begin) * row_bytes / 16;
    const SharedAddress first = panel + begin * row_bytes;
    for (int i = threadIdx.x % 128; i < chunks; i += 128) store_zeros(first + 16 * i);
  };
#pragma unroll 1
  for (int panel = 0; panel < Shape::panels; ++panel) {
    clear(values + panel * Shape::key_panel_bytes, Shape::panel_row_bytes);
  }
  if constexpr (Shape::tail > 0) clear(values + Shape::key_tail_at, Shape::tail_row_bytes);
  shared_writes_fence();
}

}  // namespace ragged::sm90
