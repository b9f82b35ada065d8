#pragma once

// A few rows over long keys: one tile of rows for the whole block. Warpgroup g of n takes key tiles
// g, g + n, g + 2n ... with a softmax of its own, and warpgroup 0 merges the others in their order,
// so that bits depend on nothing but the segment. The warpgroups need no ring among themselves:
// they are at different tiles. No mask comes here.

#include <cstdint>

#include "backends/sm90/ptx.cuh"
#include "backends/sm90/shape.cuh"
#include "backends/sm90/softmax.cuh"

namespace ragged::sm90 {

// Where a warpgroup leaves its part: accumulators as 16-byte pieces [piece][thread]; reference and
// sum of both rows of each thread as one more, `stats`.
template <int kOut>
struct TeamPart {
  static constexpr int kThreads = 128;
  static constexpr int pieces = kOut / 4;
  static constexpr int bytes = pieces * kThreads * 16;

  static __device__ __forceinline__ SharedAddress piece(SharedAddress part, int index) {
    return part + (index * kThreads + static_cast<int>(threadIdx.x) % kThreads) * 16;
  }

  // Precondition: finish_sums().
  static __device__ __forceinline__ void store(SharedAddress part, SharedAddress stats,
                                               const float (&out)[kOut], const RowState& state) {
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      store_shared(piece(part, i),
                   {__float_as_uint(out[4 * i]), __float_as_uint(out[4 * i + 1]),
                    __float_as_uint(out[4 * i + 2]), __float_as_uint(out[4 * i + 3])});
    }
    store_shared(piece(stats, 0),
                 {__float_as_uint(state.reference.low), __float_as_uint(state.reference.high),
                  __float_as_uint(state.sum.low), __float_as_uint(state.sum.high)});
  }

  // `out` and `state` become both parts together.
  static __device__ __forceinline__ void merge(SharedAddress part, SharedAddress stats,
                                               float (&out)[kOut], RowState& state, float scale) {
    std::uint32_t x[4];
    load_shared(piece(stats, 0), x);
    const RowState other = {{__uint_as_float(x[0]), __uint_as_float(x[1])},
                            {__uint_as_float(x[2]), __uint_as_float(x[3])}};
    RowPair<float> own_factor, other_factor;
    join(state.reference.low, state.sum.low, other.reference.low, other.sum.low, scale,
         own_factor.low, other_factor.low);
    join(state.reference.high, state.sum.high, other.reference.high, other.sum.high, scale,
         own_factor.high, other_factor.high);
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      load_shared(piece(part, i), x);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float& to = out[4 * i + r];
        to = fmaf(to, r < 2 ? own_factor.low : own_factor.high,
                  __uint_as_float(x[r]) * (r < 2 ? other_factor.low : other_factor.high));
      }
    }
  }

 private:
  // A part whose sum is 0 has no reference.
  static __device__ __forceinline__ void join(float& reference, float& sum, float other_reference,
                                              float other_sum, float scale, float& own_factor,
                                              float& other_factor) {
    const float both = sum == 0.0F         ? other_reference
                       : other_sum == 0.0F ? reference
                                           : fmaxf(reference, other_reference);
    own_factor = sum == 0.0F ? 0.0F : exp2_fast((reference - both) * scale);
    other_factor = other_sum == 0.0F ? 0.0F : exp2_fast((other_reference - both) * scale);
    reference = both;
    sum = fmaf(sum, own_factor, other_sum * other_factor);
  }
};

}  // namespace ragged::sm90
