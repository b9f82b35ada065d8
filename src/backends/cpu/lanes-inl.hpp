// Vector type and register tiles of the target that is being compiled. Included once per target.

#if defined(RAGGED_CPU_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_LANES_INL
#undef RAGGED_CPU_LANES_INL
#else
#define RAGGED_CPU_LANES_INL
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

// Unrolls a loop of constant bounds completely, so that its register tile stays in registers; keeps
// a loop around it rolled, since GCC at -O3 unrolls eight steps and spills accumulators.
#ifndef RAGGED_UNROLL
#if defined(__clang__)
#define RAGGED_UNROLL _Pragma("clang loop unroll(full)")
#define RAGGED_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define RAGGED_UNROLL _Pragma("GCC unroll 32")
#define RAGGED_ROLLED _Pragma("GCC unroll 1")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
// Register tiles.
template <int kCount>
using VecRow = FloatVec[static_cast<std::size_t>(kCount)];
template <int kRows, int kColumns>
using VecTile = FloatVec[static_cast<std::size_t>(kRows)][static_cast<std::size_t>(kColumns)];

inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(FloatTag()));

// 32 vector registers, or 16: how many accumulators a tile may hold beside its operands.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kRegisters = 32;
#else
inline constexpr int kRegisters = 16;
#endif

// Score tile: keys x (vectors of query rows). With 32 registers 24 accumulators, at most 16 keys.
inline constexpr int kMaxRowVectors = kRegisters == 32 ? 4 : 3;
constexpr int score_keys(int row_vectors) {
  if (kRegisters == 32) return row_vectors == 1 ? 16 : 24 / row_vectors;
  return row_vectors == 1 ? 8 : 12 / row_vectors;
}
// Keys of one packed tile, and row vectors of the panels that meet packed keys: there the tile has
// three, the shape with the fewest loads for each multiply-add.
inline constexpr int kKeyTile = score_keys(3);
inline constexpr int kPackedRowVectors = 3;

// Output tile: rows x (vectors of dims).
inline constexpr int kMaxDimVectors = kRegisters == 32 ? 5 : 3;
constexpr int output_rows(int dim_vectors) {
  if (kRegisters == 32) return dim_vectors == 5 ? 5 : dim_vectors == 1 ? 12 : 24 / dim_vectors;
  return dim_vectors == 1 ? 8 : 12 / dim_vectors;
}

// Keeps a loaded operand in its register. Without it GCC folds the load into each multiply-add that
// uses it; with 16 registers that makes the tiles bound by loads.
HWY_INLINE FloatVec Pin(FloatVec v) {
#if defined(__GNUC__) && !defined(__clang__) && HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  asm("" : "+x"(v.raw));
#endif
  return v;
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
