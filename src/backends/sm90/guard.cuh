#pragma once

// Values that are not finite, where a mask hides keys: the weight of a key that a row does not see
// is 0, and 0 x NaN is NaN. Nothing looks for such values beforehand. Where a row's result is not
// finite it is computed again from values in which what is not finite is zero, and that is added to
// what the rows that see it have become (any weight times Inf or NaN leaves Inf or NaN). A row that
// sees none of it has the bits that it has without it.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "backends/sm90/mask.cuh"
#include "backends/sm90/ptx.cuh"
#include "backends/sm90/schedule.cuh"
#include "device/attention_args.hpp"

namespace ragged::sm90 {

// Whether a mask hides keys from rows at all.
__host__ __device__ __forceinline__ bool hides_keys(const device::AttentionArgs& args) {
  return args.mask.causal || args.mask.block_size > 0;
}

// Whether it holds for any lane of the quad, whose lanes have parts of the same rows.
__device__ __forceinline__ bool quad_any(bool mine) {
  return (__ballot_sync(~0U, mine) >> (threadIdx.x % 32 & ~3U) & 15U) != 0;
}

// Whether the thread's part of each row is finite.
template <int N>
__device__ __forceinline__ RowPair<bool> finite_rows(const float (&out)[N]) {
  RowPair<float> sum = {0.0F, 0.0F};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    float& row = i % 4 < 2 ? sum.low : sum.high;
    row = fmaf(out[i], 0.0F, row);
  }
  return {sum.low == 0.0F, sum.high == 0.0F};
}

// Two elements with those that are finite set to zero.
template <class T>
__device__ __forceinline__ std::uint32_t not_finite(std::uint32_t pair) {
  constexpr std::uint32_t kLow = std::is_same_v<T, __half> ? 0x7c00U : 0x7f80U;
  constexpr std::uint32_t kHigh = kLow << 16;
  return ((pair & kLow) == kLow ? pair & 0xffffU : 0U) |
         ((pair & kHigh) == kHigh ? pair & 0xffff0000U : 0U);
}

// Adds to two elements that lie together.
template <class T>
__device__ __forceinline__ void add_pair(T* to, std::uint32_t added) {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  Pair& pair = *reinterpret_cast<Pair*>(to);
  pair = __hadd2(pair, *reinterpret_cast<const Pair*>(&added));
}

// Sets what is not finite of `bytes` bytes of values at `values` to zero. All 128 threads of a
// warpgroup come here; a barrier of theirs must follow. Warpgroups that do this to the same bytes
// at once write the same.
template <class T>
__device__ __forceinline__ void clear_not_finite(SharedAddress values, int bytes) {
#pragma unroll 1
  for (int i = 16 * static_cast<int>(threadIdx.x % 128); i < bytes; i += 16 * 128) {
    std::uint32_t x[4];
    load_shared(values + i, x);
    std::uint32_t cleared = 0;
#pragma unroll
    for (std::uint32_t& pair : x) {
      const std::uint32_t bad = not_finite<T>(pair);
      pair ^= bad;
      cleared |= bad;
    }
    if (cleared != 0) store_shared(values + i, x);
  }
  shared_writes_fence();
}

// The value of key `key` of the segment.
template <class T>
__device__ __forceinline__ const T* value_row(const device::AttentionArgs& args, const Item& item,
                                              int key) {
  const bool fresh = key >= item.prefix_len;
  const device::TensorArg& tensor = fresh ? args.v : args.prefix_v;
  const std::int64_t row = fresh ? item.kv_begin + key - item.prefix_len : item.prefix_begin + key;
  return static_cast<const T*>(tensor.data) + row * tensor.token_stride +
         item.kv_head * tensor.head_stride;
}

// Adds what is not finite to the rows of the warp that see it and that it has just written: those
// that are live, of tile `tile` of the unit. All lanes come here.
template <class T, int kDim>
__device__ __forceinline__ void add_not_finite(const device::AttentionArgs& args, const Item& item,
                                               const TileSplit& split, int tile,
                                               const RowPair<TileRow>& rows) {
  const unsigned low = __ballot_sync(~0U, rows.low.live);
  const unsigned high = __ballot_sync(~0U, rows.high.live);
  __syncwarp();  // all lanes have written
  if ((low | high) == 0) return;
#pragma unroll 1
  for (int key = item.key_begin; key < item.key_end; ++key) {
    const T* const value = value_row<T>(args, item, key);
#pragma unroll 1
    for (int column = 2 * static_cast<int>(threadIdx.x % 32); column < kDim; column += 64) {
      const std::uint32_t bad =
          not_finite<T>(*reinterpret_cast<const std::uint32_t*>(value + column));
      if (bad == 0) continue;
#pragma unroll 1
      for (int i = 0; i < 16; ++i) {
        if (((i < 8 ? low : high) >> 4 * (i % 8) & 1) == 0) continue;
        const int row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + i;
        const int of_tile = split.token(row);
        const int token = tile * split.tokens + of_tile;
        if (key >= row_end(args, item, token)) continue;
        T* const out = static_cast<T*>(args.out.data) +
                       (item.q_row + token) * args.out.token_stride +
                       (item.head + row - of_tile * split.heads) * args.out.head_stride + column;
        add_pair(out, bad);
      }
    }
  }
}

}  // namespace ragged::sm90
