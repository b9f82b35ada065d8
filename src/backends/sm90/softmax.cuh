#pragma once

// From scores to weights, and the reference that keeps weights in range.
//
// Weights are 2^(scale * score - reference), and any reference gives the same quotient as long as
// nothing leaves the range of a float. bf16 weights and fp32 sums have 8-bit exponents, so the
// maximum of a row's first tile of keys serves to the row's end: no tile after it looks for a
// maximum or rescales anything. Where that was not so (a row's sum at its end is below 2^-8, above
// 1e30 or not a number) the tile is computed again with a maximum that follows the scores. fp16
// weights have a 5-bit exponent: they take that way at once.

#include <cstdint>

#include "backends/sm90/mask.cuh"
#include "backends/sm90/ptx.cuh"

namespace ragged::sm90 {

inline constexpr float kLeastSum = 1.0F / 256.0F;  // the first tile's maximum alone weighs 1
inline constexpr float kLargestSum = 1e30F;
// A reference may lag the maximum by this power of two: weights stay below 2^8, exact to rescale.
inline constexpr float kReferenceLag = 8.0F;

template <int N>
__device__ __forceinline__ RowPair<float> row_maxima(const float (&scores)[N]) {
  RowPair<float> a = {fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3])};
  RowPair<float> b = {fmaxf(scores[4], scores[5]), fmaxf(scores[6], scores[7])};
#pragma unroll
  for (int i = 8; i < N; i += 8) {
    a.low = fmaxf(a.low, fmaxf(scores[i], scores[i + 1]));
    a.high = fmaxf(a.high, fmaxf(scores[i + 2], scores[i + 3]));
    b.low = fmaxf(b.low, fmaxf(scores[i + 4], scores[i + 5]));
    b.high = fmaxf(b.high, fmaxf(scores[i + 6], scores[i + 7]));
  }
  a = {fmaxf(a.low, b.low), fmaxf(a.high, b.high)};
#pragma unroll
  for (int lanes = 1; lanes <= 2; lanes *= 2) {
    a.low = fmaxf(a.low, __shfl_xor_sync(~0U, a.low, lanes));
    a.high = fmaxf(a.high, __shfl_xor_sync(~0U, a.high, lanes));
  }
  return a;
}

// kFollows: the reference is a score, and follows the maximum. Otherwise it is scale * score, and
// stays. The score that it came from weighs 1 exactly, or nearly: a row that one key has to itself
// is that key's value, whatever a weight is rounded to.
template <bool kFollows>
__device__ __forceinline__ float exponent(float score, float scale, float reference) {
  return kFollows ? (score - reference) * scale : fmaf(score, scale, -reference);
}

// Replaces scores by weights, rounded and in pairs, and adds them to the row sums. Three steps of 8
// registers overlap: exponents of the next, exponentials of this, rounding and sums of the last;
// the special-function unit, which takes longest, always has work. The order is written down
// because the compiler's own leaves gaps.
template <class T, bool kFollows, int N>
__device__ __forceinline__ void weigh(float (&scores)[N], std::uint32_t (&weights)[N / 2],
                                      float scale, RowPair<float> reference, RowPair<float>& sum) {
  constexpr int kStep = 8;
  constexpr int kSteps = N / kStep;
  float partial[4] = {0.0F, 0.0F, 0.0F, 0.0F};
  float exponents[2][kStep];
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    exponents[0][i] =
        exponent<kFollows>(scores[i], scale, i % 4 < 2 ? reference.low : reference.high);
  }
#pragma unroll
  for (int step = 0; step <= kSteps; ++step) {
    if (step < kSteps) {
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const int at = step * kStep + i;
        if (step + 1 < kSteps) {
          exponents[(step + 1) % 2][i] = exponent<kFollows>(
              scores[at + kStep], scale, i % 4 < 2 ? reference.low : reference.high);
        }
        scores[at] = exp2_ordered(exponents[step % 2][i]);
      }
    }
    if (step > 0) {
      const int first = (step - 1) * kStep;
#pragma unroll
      for (int i = 0; i < kStep; i += 2) {
        weights[(first + i) / 2] = pack<T>(scores[first + i], scores[first + i + 1]);
      }
#pragma unroll
      for (int i = 0; i < kStep; ++i) partial[i % 4] += scores[first + i];
#pragma unroll
      for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(partial[i]));
    }
  }
  sum.low += partial[0] + partial[1];
  sum.high += partial[2] + partial[3];
}

// A row's softmax so far.
struct RowState {
  RowPair<float> reference;
  RowPair<float> sum;
};

// -inf, the maximum of a row that sees nothing, serves as no reference.
__device__ __forceinline__ float finite_or_zero(float maximum) {
  return maximum == -__int_as_float(0x7f800000) ? 0.0F : maximum;
}

// Moves references up to this tile's maxima where they lag, and scales what was summed before.
template <int N, int M>
__device__ __forceinline__ void follow_maxima(const float (&scores)[N], float scale, bool first,
                                              RowState& state, float (&out)[M]) {
  const RowPair<float> maxima = row_maxima(scores);
  if (first) {
    state.reference = {finite_or_zero(maxima.low), finite_or_zero(maxima.high)};
    return;
  }
  RowPair<float> factor = {1.0F, 1.0F};
  if ((maxima.low - state.reference.low) * scale > kReferenceLag) {
    factor.low = exp2_fast((state.reference.low - maxima.low) * scale);
    state.reference.low = maxima.low;
  }
  if ((maxima.high - state.reference.high) * scale > kReferenceLag) {
    factor.high = exp2_fast((state.reference.high - maxima.high) * scale);
    state.reference.high = maxima.high;
  }
  if (!__any_sync(~0U, factor.low != 1.0F || factor.high != 1.0F)) return;
  state.sum.low *= factor.low;
  state.sum.high *= factor.high;
#pragma unroll
  for (int i = 0; i < M; ++i) out[i] *= i % 4 < 2 ? factor.low : factor.high;
}

// Scores of one tile to weights.
template <class T, bool kFollows, int N, int M>
__device__ __forceinline__ void softmax_step(float (&scores)[N], std::uint32_t (&weights)[N / 2],
                                             float scale, bool first, RowState& state,
                                             float (&out)[M]) {
  if constexpr (kFollows) {
    follow_maxima(scores, scale, first, state, out);
  } else if (first) {
    const RowPair<float> maxima = row_maxima(scores);
    state.reference = {finite_or_zero(maxima.low) * scale, finite_or_zero(maxima.high) * scale};
  }
  weigh<T, kFollows>(scores, weights, scale, state.reference, state.sum);
}

// Adds the four lanes' parts of each row's sum.
__device__ __forceinline__ void finish_sums(RowPair<float>& sum) {
#pragma unroll
  for (int lanes = 1; lanes <= 2; lanes *= 2) {
    sum.low += __shfl_xor_sync(~0U, sum.low, lanes);
    sum.high += __shfl_xor_sync(~0U, sum.high, lanes);
  }
}

__device__ __forceinline__ bool in_range(float sum) {
  return sum > kLeastSum && sum < kLargestSum;  // false for NaN
}

}  // namespace ragged::sm90
