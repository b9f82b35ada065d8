#pragma once

// The softmax of rows whose scores lie in product fragments: a lane holds columns 2t and 2t + 1 of
// every eight, of rows g and g + 8 of every sixteen.

#include <cmath>
#include <cstdint>

#include "backends/sm80/mma.cuh"

namespace ragged::sm80 {

// Weights are 2^(score * scale_log2 - reference * scale_log2). The reference is the largest score
// that was seen when it was last moved: it moves only where weights would pass 2^kSlack, which
// bf16, fp16 and fp32 sums hold, so that accumulators are seldom rescaled. Each row decides by its
// own scores alone.
inline constexpr float kSlack = 8.0F;
// Beyond this size of reference * scale_log2 its rounding could move a weight far from 1. Such rows
// take the difference first, which is exact where it matters.
inline constexpr float kLargeOffset = 65536.0F;

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

struct RowState {
  float reference = -INFINITY;  // a score; -inf: none was seen
  float sum = 0.0F;             // of this lane's weights, until quad_sum
};

// reference * scale_log2; 0 where there is no reference, so that weights of -inf are 0, not NaN.
__device__ __forceinline__ float offset_of(float reference, float scale_log2) {
  return reference == -INFINITY ? 0.0F : reference * scale_log2;
}

// What weights by `from` are multiplied with to become weights by `to`, 0 for none.
__device__ __forceinline__ float rebase(float from, float to, float scale_log2) {
  if (from == -INFINITY) return 0.0F;
  const float a = __fmul_rn(from, scale_log2);
  const float b = __fmul_rn(to, scale_log2);
  const bool large = fmaxf(fabsf(a), fabsf(b)) > kLargeOffset;
  return exp2_approx(large ? __fmul_rn(__fsub_rn(from, to), scale_log2) : __fsub_rn(a, b));
}

// Natural logarithm of the sum of exponentials; `sum` over the whole row.
__device__ __forceinline__ float log_sum(float reference, float sum, float scale,
                                         float scale_log2) {
  if (sum == 0.0F) return -INFINITY;
  const float offset = offset_of(reference, scale_log2);
  if (fabsf(offset) > kLargeOffset) return fmaf(reference, scale, logf(sum));
  return (offset + log2f(sum)) * 0.693147180559945309F;
}

// Takes one tile's scores into the rows' states and turns them into weights, in place. Where rows
// move their reference, `rescale(factor)` multiplies the accumulators; most tiles move none.
template <int kRowTiles, int kColumns, class Rescale>
__device__ __forceinline__ void take_scores(float (&scores)[kRowTiles][kColumns / 8][4],
                                            RowState (&rows)[kRowTiles][2], float scale_log2,
                                            const Rescale& rescale) {
  float top[kRowTiles][2];
  float offset[kRowTiles][2];
  bool special = false;  // some row moves, or is large
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = fmaxf(scores[m][0][2 * half], scores[m][0][2 * half + 1]);
#pragma unroll
      for (int n = 1; n < kColumns / 8; ++n) {
        most = fmaxf(most, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      }
      top[m][half] = quad_max(most);
      const float now = offset_of(rows[m][half].reference, scale_log2);
      offset[m][half] = now;
      // No reference: moves unless there is nothing but -inf (which this calls special too).
      special = special || rows[m][half].reference == -INFINITY ||
                fmaf(top[m][half], scale_log2, -now) > kSlack || fabsf(now) > kLargeOffset;
    }
  }
  if (__any_sync(0xffffffffU, special)) {
    float factor[kRowTiles][2];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        RowState& row = rows[m][half];
        const bool moves = row.reference == -INFINITY
                               ? top[m][half] > -INFINITY
                               : fmaf(top[m][half], scale_log2, -offset[m][half]) > kSlack;
        factor[m][half] = moves ? rebase(row.reference, top[m][half], scale_log2) : 1.0F;
        if (moves) row.reference = top[m][half];
        row.sum *= factor[m][half];
        offset[m][half] = offset_of(row.reference, scale_log2);
        if (fabsf(offset[m][half]) > kLargeOffset) {
          offset[m][half] = 0.0F;
#pragma unroll
          for (int n = 0; n < kColumns / 8; ++n) {
            scores[m][n][2 * half] -= row.reference;
            scores[m][n][2 * half + 1] -= row.reference;
          }
        }
      }
    }
    rescale(factor);
  }
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0.0F;
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[m][n][e] = exp2_approx(fmaf(scores[m][n][e], scale_log2, -offset[m][half]));
          sum += scores[m][n][e];
        }
      }
      rows[m][half].sum += sum;
    }
  }
}

// Scores of keys at or past a row's end become -inf. `first_key` is that of column 0; `ends` holds
// the visible end of each of the warp's rows.
template <int kRowTiles, int kColumns>
__device__ __forceinline__ void mask_scores(float (&scores)[kRowTiles][kColumns / 8][4],
                                            const std::int32_t* ends, std::int32_t first_key,
                                            std::uint32_t lane) {
  const std::int32_t column = first_key + 2 * static_cast<std::int32_t>(lane % 4);
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int32_t end = ends[16 * m + 8 * half + static_cast<std::int32_t>(lane / 4)];
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (column + 8 * n + e >= end) scores[m][n][2 * half + e] = -INFINITY;
        }
      }
    }
  }
}

}  // namespace ragged::sm80
