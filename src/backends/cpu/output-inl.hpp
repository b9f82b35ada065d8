// Output tiles: O[rows][dims] += P x V, with dims in the lanes: rows need no rounding up and leave
// in whole cache lines, without a transposition.

#if defined(RAGGED_CPU_OUTPUT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_OUTPUT_INL
#undef RAGGED_CPU_OUTPUT_INL
#else
#define RAGGED_CPU_OUTPUT_INL
#endif

#include <array>
#include <utility>

#include "background-inl.hpp"
#include "lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Where a tile of rows comes from and goes to.
struct OutputRows {
  const float* const* from;  // [rows] sums so far; null: start at zero
  float* const* to;          // [rows]; may equal `from`
  const float* scale;        // [rows] factors of the finished sums, or null
  bool stream;               // write past the caches; `to` is aligned to a vector
};

// One tile: `kRows` rows x `kDimVectors` vectors of dims over `num_keys` keys, each sum in key
// order in one chain.
//   weights  [num_keys][weight_stride], this tile's rows first
//   values   row j at values + j * value_stride
//   dim      offset of the tile's dims in the rows of `rows`
template <int kRows, int kDimVectors>
HWY_NOINLINE void OutputTile(const float* HWY_RESTRICT weights, std::ptrdiff_t weight_stride,
                             const float* HWY_RESTRICT values, std::ptrdiff_t value_stride,
                             int num_keys, const OutputRows& rows, std::ptrdiff_t dim,
                             Background* HWY_RESTRICT background) {
  const FloatTag d;
  VecTile<kRows, kDimVectors> sum;
  if (rows.from == nullptr) {
    RAGGED_UNROLL
    for (int i = 0; i < kRows; ++i) {
      RAGGED_UNROLL
      for (int c = 0; c < kDimVectors; ++c) sum[i][c] = hn::Zero(d);
    }
  } else {
    RAGGED_UNROLL
    for (int i = 0; i < kRows; ++i) {
      RAGGED_UNROLL
      for (int c = 0; c < kDimVectors; ++c) {
        sum[i][c] = hn::LoadU(d, rows.from[i] + dim + c * kLanes);
      }
    }
  }
  for (int j8 = 0; j8 < num_keys; j8 += 8) {
    background->tick();
    const int steps = num_keys - j8 < 8 ? num_keys - j8 : 8;
    RAGGED_ROLLED
    for (int j = 0; j < steps; ++j) {
      VecRow<kDimVectors> value;
      RAGGED_UNROLL
      for (int c = 0; c < kDimVectors; ++c) value[c] = Pin(hn::LoadU(d, values + c * kLanes));
      RAGGED_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const FloatVec weight = Pin(hn::Set(d, weights[i]));
        RAGGED_UNROLL
        for (int c = 0; c < kDimVectors; ++c) sum[i][c] = hn::MulAdd(weight, value[c], sum[i][c]);
      }
      weights += weight_stride;
      values += value_stride;
    }
  }
  if (rows.scale != nullptr) {
    RAGGED_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const FloatVec scale = hn::Set(d, rows.scale[i]);
      RAGGED_UNROLL
      for (int c = 0; c < kDimVectors; ++c) sum[i][c] = hn::Mul(sum[i][c], scale);
    }
  }
  if (rows.stream) {
    RAGGED_UNROLL
    for (int i = 0; i < kRows; ++i) {
      RAGGED_UNROLL
      for (int c = 0; c < kDimVectors; ++c) hn::Stream(sum[i][c], d, rows.to[i] + dim + c * kLanes);
    }
    return;
  }
  RAGGED_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RAGGED_UNROLL
    for (int c = 0; c < kDimVectors; ++c) hn::StoreU(sum[i][c], d, rows.to[i] + dim + c * kLanes);
  }
}

using OutputTileFn = void (*)(const float*, std::ptrdiff_t, const float*, std::ptrdiff_t, int,
                              const OutputRows&, std::ptrdiff_t, Background*);

// Entry [i] computes i + 1 rows.
template <int kDimVectors>
constexpr auto OutputTiles() {
  constexpr int kMost = output_rows(kDimVectors);
  return []<int... i>(std::integer_sequence<int, i...>) {
    return std::array<OutputTileFn, std::size_t{kMost}>{&OutputTile<i + 1, kDimVectors>...};
  }
  (std::make_integer_sequence<int, kMost>());
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
