// The last 8 dims of a head whose dims do not fill vectors of 16 lanes: rows in the lanes, as in
// the score tiles. Half-empty vectors would cost a tenth of all output arithmetic at 72 dims.

#if defined(RAGGED_CPU_TAIL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_TAIL_INL
#undef RAGGED_CPU_TAIL_INL
#else
#define RAGGED_CPU_TAIL_INL
#endif

#include <cstdint>

#include "background-inl.hpp"
#include "lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

inline constexpr int kTailDims = 8;
// Dims of a tile: with four row vectors 8 would need more registers than there are.
constexpr int tail_tile_dims(int row_vectors) { return row_vectors > 3 ? 4 : kTailDims; }

template <int kRowVectors, int kDims>
HWY_NOINLINE void TailTile(const float* HWY_RESTRICT weights, const float* HWY_RESTRICT values,
                           std::ptrdiff_t value_stride, int num_keys, bool first,
                           float* HWY_RESTRICT sums, Background* HWY_RESTRICT background) {
  const FloatTag d;
  VecTile<kDims, kRowVectors> sum;
  RAGGED_UNROLL
  for (int c = 0; c < kDims; ++c) {
    RAGGED_UNROLL
    for (int r = 0; r < kRowVectors; ++r) {
      sum[c][r] = first ? hn::Zero(d) : hn::Load(d, sums + (c * kRowVectors + r) * kLanes);
    }
  }
  for (int j8 = 0; j8 < num_keys; j8 += 8) {
    background->tick();
    const int steps = num_keys - j8 < 8 ? num_keys - j8 : 8;
    RAGGED_ROLLED
    for (int j = 0; j < steps; ++j) {
      VecRow<kRowVectors> weight;
      RAGGED_UNROLL
      for (int r = 0; r < kRowVectors; ++r) weight[r] = Pin(hn::Load(d, weights + r * kLanes));
      RAGGED_UNROLL
      for (int c = 0; c < kDims; ++c) {
        const FloatVec value = Pin(hn::Set(d, values[c]));
        RAGGED_UNROLL
        for (int r = 0; r < kRowVectors; ++r) sum[c][r] = hn::MulAdd(value, weight[r], sum[c][r]);
      }
      weights += kRowVectors * kLanes;
      values += value_stride;
    }
  }
  RAGGED_UNROLL
  for (int c = 0; c < kDims; ++c) {
    RAGGED_UNROLL
    for (int r = 0; r < kRowVectors; ++r) {
      hn::Store(sum[c][r], d, sums + (c * kRowVectors + r) * kLanes);
    }
  }
}

// sums[kTailDims][kRowVectors * kLanes] += weights[num_keys][kRowVectors * kLanes] x values.
//   values  row j at values + j * value_stride, the tail's dims first
template <int kRowVectors>
HWY_INLINE void OutputTail(const float* weights, const float* values, std::ptrdiff_t value_stride,
                           int num_keys, bool first, float* sums, Background* background) {
  constexpr int kDims = tail_tile_dims(kRowVectors);
  for (int c = 0; c < kTailDims; c += kDims) {
    TailTile<kRowVectors, kDims>(weights, values + c, value_stride, num_keys, first,
                                 sums + c * kRowVectors * kLanes, background);
  }
}

// The same for keys [begin, num_keys) that not every row sees: a lane adds only the keys below its
// end, so that a value it does not see never meets its weight of 0 (0 x NaN is NaN).
template <int kRowVectors>
HWY_NOINLINE void OutputTailMasked(const float* HWY_RESTRICT weights,
                                   const float* HWY_RESTRICT values, std::ptrdiff_t value_stride,
                                   int begin, int num_keys, const std::int32_t* HWY_RESTRICT ends,
                                   float* HWY_RESTRICT sums) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  for (int j = begin; j < num_keys; ++j) {
    const float* weight = weights + j * kRowVectors * kLanes;
    const float* value = values + j * value_stride;
    for (int r = 0; r < kRowVectors; ++r) {
      const auto seen = hn::RebindMask(d, hn::Gt(hn::Load(di, ends + r * kLanes), hn::Set(di, j)));
      const FloatVec w = hn::Load(d, weight + r * kLanes);
      for (int c = 0; c < kTailDims; ++c) {
        float* at = sums + (c * kRowVectors + r) * kLanes;
        const FloatVec old = hn::Load(d, at);
        hn::Store(hn::IfThenElse(seen, hn::MulAdd(hn::Set(d, value[c]), w, old), old), d, at);
      }
    }
  }
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
