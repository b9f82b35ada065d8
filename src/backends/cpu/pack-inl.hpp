// Keys and values of a chunk, copied once into the layout that the inner loops read best, and
// converted to fp32 on the way.

#if defined(RAGGED_CPU_PACK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_PACK_INL
#undef RAGGED_CPU_PACK_INL
#else
#define RAGGED_CPU_PACK_INL
#endif

#include <cstdint>

#include "sources.hpp"
#include "transpose-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Elements from one packed value row to the next: a multiple of a vector, so that no load crosses a
// cache line.
constexpr std::ptrdiff_t packed_value_stride(int head_dim) {
  return (head_dim + kLanes - 1) / kLanes * kLanes;
}

// One row of head_dim elements as floats.
template <class T>
HWY_INLINE void CopyRow(const T* HWY_RESTRICT from, int head_dim, float* HWY_RESTRICT to) {
  const FloatTag d;
  int x = 0;
  for (; x + kLanes <= head_dim; x += kLanes) hn::StoreU(LoadElements(d, from + x), d, to + x);
  if constexpr (kLanes > 8) {
    const hn::CappedTag<float, 8> d8;
    for (; x < head_dim; x += 8) hn::StoreU(LoadElements(d8, from + x), d8, to + x);
  }
}

// Keys [begin, end) as rows [end - begin][head_dim].
template <class T>
HWY_NOINLINE void CopyKeys(const KeySources<T>& sources, std::int64_t begin, std::int64_t end,
                           int head_dim, float* HWY_RESTRICT keys) {
  for (std::int64_t j = begin; j < end; ++j, keys += head_dim) {
    CopyRow(sources.key(j), head_dim, keys);
  }
}

// Values [begin, end) as rows [end - begin][packed_value_stride(head_dim)].
template <class T>
HWY_NOINLINE void CopyValues(const KeySources<T>& sources, std::int64_t begin, std::int64_t end,
                             int head_dim, float* HWY_RESTRICT values) {
  for (std::int64_t j = begin; j < end; ++j, values += packed_value_stride(head_dim)) {
    CopyRow(sources.value(j), head_dim, values);
  }
}

// Keys [begin, end): tiles of [head_dim][kKeyTile], the last one filled up with its last key.
//   keys    [ceil((end - begin) / kKeyTile)][head_dim][kKeyTile]
//   values  [end - begin][packed_value_stride(head_dim)]
template <class T>
HWY_NOINLINE void PackChunk(const KeySources<T>& sources, std::int64_t begin, std::int64_t end,
                            int head_dim, float* HWY_RESTRICT keys, float* HWY_RESTRICT values) {
  const hn::CappedTag<float, kKeyTile> d;
  constexpr int kRows = static_cast<int>(hn::MaxLanes(d));
  const std::ptrdiff_t value_stride = packed_value_stride(head_dim);
  for (std::int64_t tile = begin; tile < end; tile += kKeyTile) {
    const T* rows[kKeyTile];
    for (int j = 0; j < kKeyTile; ++j) {
      rows[j] = sources.key(tile + j < end ? tile + j : end - 1);
    }
    for (int j = 0; j < kKeyTile; j += kRows) {
      TransposeRows<false>(d, rows + j, head_dim, 1.0f, keys + j, kKeyTile);
    }
    keys += std::ptrdiff_t{kKeyTile} * head_dim;
    for (int j = 0; j < kKeyTile && tile + j < end; ++j) {
      CopyRow(sources.value(tile + j), head_dim, values);
      values += value_stride;
    }
  }
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
