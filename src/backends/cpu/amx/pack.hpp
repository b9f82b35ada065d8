#pragma once

// Keys and values of one chunk in the order that the tiles multiply: pairs of neighbouring elements
// along the summed dimension, zeros where the chunk or the head ends. Included by item.cc alone.

#include <algorithm>
#include <cstdint>

#include "backends/cpu/amx/target.hpp"
#include "backends/cpu/elements.hpp"
#include "backends/cpu/prefetch.hpp"
#include "backends/cpu/sources.hpp"

RAGGED_AMX_BEGIN
namespace ragged::cpu::amx {
namespace {

inline constexpr int kTileElements = 512;  // bf16 of one tile: 16 rows of 64 bytes

// Lanes [0, count) of 32.
inline __mmask32 first_lanes(int count) {
  return count >= 32 ? 0xFFFFFFFFU : (count <= 0 ? 0U : (1U << count) - 1U);
}
inline __mmask16 first_lanes16(int count) {
  return static_cast<__mmask16>(first_lanes(std::min(count, 16)));
}

// r[i] lane j <-> r[j] lane i, lanes of 32 bits.
inline void transpose_16x16(__m512i* r) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i + 0] = _mm512_unpacklo_epi64(t[4 * i + 0], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i + 0], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i + 0] = _mm512_shuffle_i32x4(r[i + 0], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i + 0], r[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
  }
  for (int i = 0; i < 4; ++i) {
    r[i + 0] = _mm512_shuffle_i32x4(t[i + 0], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i + 0], t[i + 8], 0xDD);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
  }
}

// Keys [begin, begin + count) to [count / 16, rounded up to even][dim_steps] tiles of
// [16 dim pairs][16 keys][2]. dim_steps = head_dim / 32, rounded up.
inline void pack_keys(const KeySources<Bf16>& sources, std::int64_t begin, int count, int head_dim,
                      Bf16* packed, Prefetcher& prefetcher) {
  const int dim_steps = (head_dim + 31) / 32;
  const int tiles = (count + 31) / 32 * 2;
  for (int tile = 0; tile < tiles; ++tile) {
    const int valid = std::clamp(count - tile * 16, 0, 16);
    const Bf16* rows[16];
    for (int i = 0; i < valid; ++i) rows[i] = sources.key(begin + tile * 16 + i);
    for (int step = 0; step < dim_steps; ++step) {
      const __mmask32 dims = first_lanes(head_dim - step * 32);
      __m512i r[16];
      for (int i = 0; i < 16; ++i) {
        r[i] = i < valid ? _mm512_maskz_loadu_epi16(dims, rows[i] + step * 32)
                         : _mm512_setzero_si512();
      }
      transpose_16x16(r);
      prefetcher.tick();
      for (int i = 0; i < 16; ++i) _mm512_store_si512(packed + i * 32, r[i]);
      packed += kTileElements;
    }
  }
}

// One bit for each 16-bit lane that holds Inf or NaN.
inline __mmask32 special_lanes(__m512i values) {
  const __m512i exponent = _mm512_set1_epi16(0x7F80);
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(values, exponent), exponent);
}

// Values to [count / 32, rounded up][dim_tiles] tiles of [16 key pairs][16 dims][2]. dim_tiles =
// head_dim / 16, rounded up. True if every value is finite.
inline bool pack_values(const KeySources<Bf16>& sources, std::int64_t begin, int count,
                        int head_dim, Bf16* packed, Prefetcher& prefetcher) {
  const int dim_tiles = (head_dim + 15) / 16;
  __mmask32 special = 0;
  for (int key = 0; key < (count + 31) / 32 * 32; key += 2) {
    Bf16* to = packed + key / 32 * dim_tiles * kTileElements + key % 32 * 16;
    prefetcher.tick();
    const Bf16* even = key < count ? sources.value(begin + key) : nullptr;
    const Bf16* odd = key + 1 < count ? sources.value(begin + key + 1) : nullptr;
    for (int tile = 0; tile < dim_tiles; ++tile) {
      const __mmask16 dims = first_lanes16(head_dim - tile * 16);
      __m512i low = _mm512_setzero_si512();
      __m512i high = low;
      if (even != nullptr) {
        low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(dims, even + tile * 16));
      }
      if (odd != nullptr) {
        high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(dims, odd + tile * 16));
      }
      const __m512i pairs = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
      special |= special_lanes(pairs);
      _mm512_store_si512(to + tile * kTileElements, pairs);
    }
  }
  return special == 0;
}

// Copies packed values and sets those of keys from `end` on that are not finite to 0: a row that
// ends there gives them the weight 0, and 0 times NaN would reach it.
inline void copy_visible_values(const Bf16* packed, int count, int end, int head_dim, Bf16* to) {
  const int dim_tiles = (head_dim + 15) / 16;
  for (int key = 0; key < (count + 31) / 32 * 32; key += 2) {
    const int at = key / 32 * dim_tiles * kTileElements + key % 32 * 16;
    __mmask32 hidden = 0;  // low halves hold the even key, high halves the odd one
    if (key >= end) hidden |= 0x55555555U;
    if (key + 1 >= end) hidden |= 0xAAAAAAAAU;
    for (int tile = 0; tile < dim_tiles; ++tile) {
      const __m512i pairs = _mm512_load_si512(packed + at + tile * kTileElements);
      const __mmask32 kept = ~(hidden & special_lanes(pairs));
      _mm512_store_si512(to + at + tile * kTileElements, _mm512_maskz_mov_epi16(kept, pairs));
    }
  }
}

}  // namespace
}  // namespace ragged::cpu::amx
RAGGED_AMX_END
