// Rows of elements turned into columns of floats: queries into panels with rows in the lanes, keys
// into tiles of kKeyTile keys.

#if defined(RAGGED_CPU_TRANSPOSE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_TRANSPOSE_INL
#undef RAGGED_CPU_TRANSPOSE_INL
#else
#define RAGGED_CPU_TRANSPOSE_INL
#endif

#include <cstdint>

#include "elements-inl.hpp"
#include "lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// 16 bytes of every fourth row, side by side: block b of the vector comes from rows[4 b].
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadQuads(D d, const T* const* rows, std::ptrdiff_t offset) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, static_cast<const float*>(static_cast<const void*>(rows[0] + offset)));
  } else {
    const hn::Half<D> half;
    constexpr int kHalfLanes = static_cast<int>(hn::MaxLanes(half));
    return hn::Combine(d, LoadQuads(half, rows + kHalfLanes, offset),
                       LoadQuads(half, rows, offset));
  }
}

// Four 32-bit columns of as many rows as D has lanes, from as many row pointers.
template <class D>
struct Columns {
  hn::Vec<D> column[4];
};
template <class D, class T>
HWY_INLINE Columns<D> TransposeQuad(D d, const T* const* rows, std::ptrdiff_t offset) {
  const hn::Repartition<std::uint64_t, D> d64;
  const auto r0 = LoadQuads(d, rows + 0, offset);
  const auto r1 = LoadQuads(d, rows + 1, offset);
  const auto r2 = LoadQuads(d, rows + 2, offset);
  const auto r3 = LoadQuads(d, rows + 3, offset);
  // 4 x 4 within each 128-bit block; block b holds rows 4 b .. 4 b + 3.
  const auto lo01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
  const auto hi01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
  const auto lo23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
  const auto hi23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
  return {{hn::BitCast(d, hn::InterleaveLower(d64, lo01, lo23)),
           hn::BitCast(d, hn::InterleaveUpper(d64, lo01, lo23)),
           hn::BitCast(d, hn::InterleaveLower(d64, hi01, hi23)),
           hn::BitCast(d, hn::InterleaveUpper(d64, hi01, hi23))}};
}

// The two elements of each 32-bit lane, the one at the lower address first.
template <class D>
HWY_INLINE void SplitPairs(D d, hn::Vec<D> pairs, Bf16 /*element*/, hn::Vec<D>& first,
                           hn::Vec<D>& second) {
  const hn::Rebind<std::uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, pairs);
  first = hn::BitCast(d, hn::ShiftLeft<16>(bits));
  second = hn::BitCast(d, hn::And(bits, hn::Set(d32, 0xFFFF0000u)));
}
template <class D>
HWY_INLINE void SplitPairs(D d, hn::Vec<D> pairs, Fp16 /*element*/, hn::Vec<D>& first,
                           hn::Vec<D>& second) {
  const hn::Rebind<std::uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, pairs);
  const auto low = hn::And(bits, hn::Set(d32, 0xFFFFu));
  const auto high = hn::ShiftRight<16>(bits);
#if RAGGED_CPU_NATIVE_FP16
  const hn::Rebind<std::int32_t, D> di32;
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> dh;
  first = hn::PromoteTo(d, hn::BitCast(dh, hn::DemoteTo(d16, hn::BitCast(di32, low))));
  second = hn::PromoteTo(d, hn::BitCast(dh, hn::DemoteTo(d16, hn::BitCast(di32, high))));
#else
  first = FloatFromFp16(d, low);
  second = FloatFromFp16(d, high);
#endif
}

// Rows [head_dim] of as many pointers as D has lanes, as columns: element x of every row, times
// `scale` (with kScale), at out + x * out_stride. Precondition: head_dim is a multiple of 8.
template <bool kScale, class D, class T>
HWY_INLINE void TransposeRows(D d, const T* const* rows, int head_dim, float scale,
                              float* HWY_RESTRICT out, std::ptrdiff_t out_stride) {
  const auto factor = hn::Set(d, scale);
  const auto put = [&](hn::Vec<D> v) HWY_ATTR {
    if constexpr (kScale) v = hn::Mul(v, factor);
    hn::Store(v, d, out);
    out += out_stride;
  };
  constexpr int kStep = 16 / static_cast<int>(sizeof(T));  // elements of 16 bytes
  for (int x = 0; x < head_dim; x += kStep) {
    const Columns<D> columns = TransposeQuad(d, rows, x);
    RAGGED_UNROLL
    for (int c = 0; c < 4; ++c) {
      if constexpr (sizeof(T) == 4) {
        put(columns.column[c]);
      } else {
        hn::Vec<D> first;
        hn::Vec<D> second;
        SplitPairs(d, columns.column[c], T(), first, second);
        put(first);
        put(second);
      }
    }
  }
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
