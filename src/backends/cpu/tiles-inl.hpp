// The tile kernels of fp32 panels behind one small interface: what the panel code calls for one key
// block. A target with matrix units of its own brings another struct with the same functions.

#if defined(RAGGED_CPU_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_TILES_INL
#undef RAGGED_CPU_TILES_INL
#else
#define RAGGED_CPU_TILES_INL
#endif

#include <array>
#include <cstdint>

#include "lanes-inl.hpp"
#include "output-inl.hpp"
#include "score-inl.hpp"
#include "softmax-inl.hpp"
#include "tail-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Everything whose code depends on how many vectors of rows a panel has.
struct RowKernels {
  const ScoreTileFn* in_place;  // entry [k]: k + 1 keys
  int in_place_keys;            // most keys of one tile
  const ScoreTileFn* packed;    // null where panels of this size never meet packed keys
  void (*mask)(float*, int, int, const std::int32_t*, float*);
  bool (*move)(const float*, float*, float*, float*);
  void (*weigh)(float*, int, const float*, float*);
  void (*tail)(const float*, const float*, std::ptrdiff_t, int, bool, float*, Background*);
  void (*tail_masked)(const float*, const float*, std::ptrdiff_t, int, int, const std::int32_t*,
                      float*);
};

template <int kRowVectors, bool kPacked>
inline constexpr auto kScoreTiles = ScoreTiles<kRowVectors, kPacked>();
template <int kDimVectors>
inline constexpr auto kOutputTiles = OutputTiles<kDimVectors>();

template <int kRowVectors>
constexpr RowKernels row_kernels() {
  RowKernels kernels{};
  kernels.in_place = kScoreTiles<kRowVectors, false>.data();
  kernels.in_place_keys = score_keys(kRowVectors);
  if constexpr (kRowVectors <= kPackedRowVectors) {
    kernels.packed = kScoreTiles<kRowVectors, true>.data();
  }
  kernels.mask = &MaskScores<kRowVectors>;
  kernels.move = &MoveReference<kRowVectors>;
  kernels.weigh = &Weigh<kRowVectors>;
  if constexpr (kLanes > kTailDims) {
    kernels.tail = &OutputTail<kRowVectors>;
    kernels.tail_masked = &OutputTailMasked<kRowVectors>;
  }
  return kernels;
}

// Entry [r]: r + 1 vectors of rows.
inline constexpr auto kRowKernels = [] {
  std::array<RowKernels, kMaxRowVectors> all{};
  all[0] = row_kernels<1>();
  all[1] = row_kernels<2>();
  all[2] = row_kernels<3>();
  if constexpr (kMaxRowVectors > 3) all[3] = row_kernels<kMaxRowVectors>();
  return all;
}();

struct DimKernels {
  const OutputTileFn* tile;  // entry [i]: i + 1 rows
  int rows;                  // most rows of one tile
};

// Entry [c]: c + 1 vectors of dims.
inline constexpr auto kDimKernels = [] {
  std::array<DimKernels, kMaxDimVectors> all{};
  all[0] = {kOutputTiles<1>.data(), output_rows(1)};
  all[1] = {kOutputTiles<2>.data(), output_rows(2)};
  all[2] = {kOutputTiles<3>.data(), output_rows(3)};
  if constexpr (kMaxDimVectors > 3) {
    all[3] = {kOutputTiles<4>.data(), output_rows(4)};
    all[4] = {kOutputTiles<5>.data(), output_rows(5)};
  }
  return all;
}();

// Widths, in vectors, of the output tiles that cover `vectors` vectors of dims side by side. The
// widest tile comes first; the last two share what is left, since narrow tiles are slow.
constexpr int next_dim_width(int vectors) {
  // 16 registers: two vectors by six rows fit best; three take an odd rest.
  if (kMaxDimVectors == 3) return vectors == 3 || vectors == 1 ? vectors : 2;
  // 32 registers: 4 x 6 and 5 x 5 alike.
  if (vectors <= kMaxDimVectors) return vectors;
  if (vectors == 6) return 3;
  if (vectors == 7 || vectors % 4 == 0) return 4;
  return vectors % 5 == 0 || vectors % 4 != 0 ? 5 : 4;
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
