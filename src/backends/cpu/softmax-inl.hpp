// The softmax of one key block, rows in the lanes: mask, running reference, weights, running sum.

#if defined(RAGGED_CPU_SOFTMAX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_SOFTMAX_INL
#undef RAGGED_CPU_SOFTMAX_INL
#else
#define RAGGED_CPU_SOFTMAX_INL
#endif

#include <cstdint>
#include <limits>

#include "exp2-inl.hpp"
#include "lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// A row's reference follows its maximum only in steps of more than this (a power of two), because a
// change costs a pass over the row's sums. Weights then reach 2^8, which fp32 holds without loss.
inline constexpr float kLazyStep = 8.0f;

// Sets the scores that a row does not see to -inf and computes the maxima anew.
//   scores  [num_keys][kRowVectors * kLanes]
//   ends    [kRowVectors * kLanes], keys of this block that each row sees
//   first   keys below it are seen by every row
template <int kRowVectors>
HWY_NOINLINE void MaskScores(float* HWY_RESTRICT scores, int first, int num_keys,
                             const std::int32_t* HWY_RESTRICT ends, float* HWY_RESTRICT maxima) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const FloatVec hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  VecRow<kRowVectors> top;
  RAGGED_UNROLL
  for (int r = 0; r < kRowVectors; ++r) top[r] = hidden;
  for (int j = 0; j < first; ++j) {
    RAGGED_UNROLL
    for (int r = 0; r < kRowVectors; ++r) {
      top[r] = hn::Max(top[r], hn::Load(d, scores + (j * kRowVectors + r) * kLanes));
    }
  }
  for (int j = first; j < num_keys; ++j) {
    const auto key = hn::Set(di, j);
    RAGGED_UNROLL
    for (int r = 0; r < kRowVectors; ++r) {
      float* at = scores + (j * kRowVectors + r) * kLanes;
      const auto seen = hn::RebindMask(d, hn::Gt(hn::Load(di, ends + r * kLanes), key));
      const FloatVec score = hn::IfThenElse(seen, hn::Load(d, at), hidden);
      top[r] = hn::Max(top[r], score);
      hn::Store(score, d, at);
    }
  }
  RAGGED_UNROLL
  for (int r = 0; r < kRowVectors; ++r) hn::Store(top[r], d, maxima + r * kLanes);
}

// Moves the reference of every row whose maximum left it behind, and scales the row's sum.
//   maxima     of this block
//   reference  in and out; -inf before the row's first visible key
//   sums       in and out
//   factors    out: what each row's outputs so far must be multiplied by
// True if some factor is not 1.
template <int kRowVectors>
HWY_NOINLINE bool MoveReference(const float* HWY_RESTRICT maxima, float* HWY_RESTRICT reference,
                                float* HWY_RESTRICT sums, float* HWY_RESTRICT factors) {
  const FloatTag d;
  const FloatVec step = hn::Set(d, kLazyStep);
  const FloatVec one = hn::Set(d, 1.0f);
  bool moved = false;
  for (int r = 0; r < kRowVectors; ++r) {
    const FloatVec top = hn::Load(d, maxima + r * kLanes);
    const FloatVec old = hn::Load(d, reference + r * kLanes);
    const auto moves = hn::Gt(top, hn::Add(old, step));
    if (hn::AllFalse(d, moves)) {
      hn::Store(one, d, factors + r * kLanes);
      continue;
    }
    moved = true;
    // A first maximum leaves -inf: 2^(-inf) = 0 times sums that are still 0.
    const FloatVec factor = hn::IfThenElse(moves, Exp2(hn::Sub(old, top)), one);
    hn::Store(factor, d, factors + r * kLanes);
    hn::Store(hn::IfThenElse(moves, top, old), d, reference + r * kLanes);
    hn::Store(hn::Mul(hn::Load(d, sums + r * kLanes), factor), d, sums + r * kLanes);
  }
  return moved;
}

// Scores to weights, in place, and their sums, each in key order in one chain.
template <int kRowVectors>
HWY_NOINLINE void Weigh(float* HWY_RESTRICT scores, int num_keys,
                        const float* HWY_RESTRICT reference, float* HWY_RESTRICT sums) {
  const FloatTag d;
  const FloatVec none = hn::Set(d, -std::numeric_limits<float>::infinity());
  VecRow<kRowVectors> base;
  VecRow<kRowVectors> sum;
  RAGGED_UNROLL
  for (int r = 0; r < kRowVectors; ++r) {
    const FloatVec ref = hn::Load(d, reference + r * kLanes);
    // A row that has seen no key yet has only scores of -inf: they less 0 give weights of 0.
    base[r] = hn::IfThenElse(hn::Eq(ref, none), hn::Zero(d), ref);
    sum[r] = hn::Load(d, sums + r * kLanes);
  }
  for (int j = 0; j < num_keys; ++j) {
    RAGGED_UNROLL
    for (int r = 0; r < kRowVectors; ++r) {
      float* at = scores + (j * kRowVectors + r) * kLanes;
      const FloatVec weight = Exp2(hn::Sub(hn::Load(d, at), base[r]));
      sum[r] = hn::Add(sum[r], weight);
      hn::Store(weight, d, at);
    }
  }
  RAGGED_UNROLL
  for (int r = 0; r < kRowVectors; ++r) hn::Store(sum[r], d, sums + r * kLanes);
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
