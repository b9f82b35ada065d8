// Score tiles: S^T[keys][rows] = K x Q^T, with query rows in the lanes, so that everything after it
// (mask, maximum, exponential, sum) is vertical and a lane never meets another row.

#if defined(RAGGED_CPU_SCORE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_SCORE_INL
#undef RAGGED_CPU_SCORE_INL
#else
#define RAGGED_CPU_SCORE_INL
#endif

#include <array>
#include <utility>

#include "background-inl.hpp"
#include "lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// One tile: `kKeys` keys against `kRowVectors` vectors of query rows. The sum of one score runs
// over the dims in order, in one chain, whatever the tile: a row's bits do not depend on it.
//   queries  [head_dim][kRowVectors * kLanes], scaled
//   keys     in place: row j at keys + j * stride; packed: [head_dim][kKeyTile], stride unused
//   scores   [kKeys][kRowVectors * kLanes]
//   maxima   [kRowVectors * kLanes], raised to the largest score of each row
// Precondition: head_dim is a multiple of 8.
template <int kRowVectors, int kKeys, bool kPacked>
HWY_NOINLINE void ScoreTile(const float* HWY_RESTRICT queries, const float* HWY_RESTRICT keys,
                            std::ptrdiff_t stride, int head_dim, float* HWY_RESTRICT scores,
                            float* HWY_RESTRICT maxima, Background* HWY_RESTRICT background) {
  const FloatTag d;
  VecTile<kKeys, kRowVectors> sum;
  RAGGED_UNROLL
  for (int j = 0; j < kKeys; ++j) {
    RAGGED_UNROLL
    for (int r = 0; r < kRowVectors; ++r) sum[j][r] = hn::Zero(d);
  }
  for (int x8 = 0; x8 < head_dim; x8 += 8) {
    background->tick();
    RAGGED_ROLLED
    for (int x = 0; x < 8; ++x) {
      VecRow<kRowVectors> query;
      RAGGED_UNROLL
      for (int r = 0; r < kRowVectors; ++r) query[r] = Pin(hn::Load(d, queries + r * kLanes));
      RAGGED_UNROLL
      for (int j = 0; j < kKeys; ++j) {
        const FloatVec key = Pin(hn::Set(d, kPacked ? keys[j] : keys[j * stride]));
        RAGGED_UNROLL
        for (int r = 0; r < kRowVectors; ++r) sum[j][r] = hn::MulAdd(key, query[r], sum[j][r]);
      }
      queries += kRowVectors * kLanes;
      keys += kPacked ? kKeyTile : 1;
    }
  }
  RAGGED_UNROLL
  for (int r = 0; r < kRowVectors; ++r) {
    FloatVec top = hn::Load(d, maxima + r * kLanes);
    RAGGED_UNROLL
    for (int j = 0; j < kKeys; ++j) {
      top = hn::Max(top, sum[j][r]);
      hn::Store(sum[j][r], d, scores + (j * kRowVectors + r) * kLanes);
    }
    hn::Store(top, d, maxima + r * kLanes);
  }
}

using ScoreTileFn = void (*)(const float*, const float*, std::ptrdiff_t, int, float*, float*,
                             Background*);

// Entry [k] computes k + 1 keys.
template <int kRowVectors, bool kPacked>
constexpr auto ScoreTiles() {
  constexpr int kMost = kPacked ? kKeyTile : score_keys(kRowVectors);
  return []<int... k>(std::integer_sequence<int, k...>) {
    return std::array<ScoreTileFn, std::size_t{kMost}>{&ScoreTile<kRowVectors, k + 1, kPacked>...};
  }
  (std::make_integer_sequence<int, kMost>());
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
