#pragma once

// Scores of a row to bf16 weights, keys in the lanes, four rows at a time. Included by item.cc
// alone.

#include <cstdint>
#include <limits>

#include "backends/cpu/amx/target.hpp"
#include "backends/cpu/elements.hpp"

RAGGED_AMX_BEGIN
namespace ragged::cpu::amx {
namespace {

inline constexpr float kNoReference = -std::numeric_limits<float>::infinity();

// 2^x with a minimax quartic on [0, 1), within 2.6e-6 relative: nothing that a bf16 weight holds is
// lost, and the logarithm of the sum stays good to 1e-5. -inf gives 0, NaN stays NaN.
inline __m512 exp2_of(__m512 x) {
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_set1_ps(0.013534096215607704F);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.05201160708834759F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.2414426590783874F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6930038586812561F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0000025916022581F));
  return _mm512_scalef_ps(p, x);
}

// Four neighbouring rows of a panel in one chunk.
struct FourRows {
  const float* scores = nullptr;       // [4][stride]
  Bf16* weights = nullptr;             // [4][stride]
  int stride = 0;                      // keys
  const std::int32_t* ends = nullptr;  // [4]: keys of the chunk that each row sees
  int padded_keys = 0;                 // weights to write, a multiple of 32
  float scale = 0.0F;
  float* references = nullptr;  // [4], scaled; kNoReference before the first
  __m512* sums = nullptr;       // [4]; the lanes are added up at the end
};

// The largest visible score of each row, scaled; -inf where a row sees none.
inline __m128 scaled_maxima(const FourRows& rows) {
  __m512 top[4];
  for (int i = 0; i < 4; ++i) {
    const float* score = rows.scores + i * rows.stride;
    __m512 even = _mm512_set1_ps(kNoReference);
    __m512 odd = even;
    const int whole = rows.ends[i] / 16;
    int v = 0;
    for (; v + 2 <= whole; v += 2) {
      even = _mm512_max_ps(even, _mm512_load_ps(score + v * 16));
      odd = _mm512_max_ps(odd, _mm512_load_ps(score + v * 16 + 16));
    }
    if (v < whole) even = _mm512_max_ps(even, _mm512_load_ps(score + v * 16));
    const __mmask16 rest = static_cast<__mmask16>((1U << (rows.ends[i] % 16)) - 1U);
    if (rest != 0) odd = _mm512_mask_max_ps(odd, rest, odd, _mm512_load_ps(score + whole * 16));
    top[i] = _mm512_max_ps(even, odd);
  }
  // Four vectors fold into one at once: row i ends in lane i.
  const __m512 a =
      _mm512_max_ps(_mm512_unpacklo_ps(top[0], top[1]), _mm512_unpackhi_ps(top[0], top[1]));
  const __m512 b =
      _mm512_max_ps(_mm512_unpacklo_ps(top[2], top[3]), _mm512_unpackhi_ps(top[2], top[3]));
  const __m512 c = _mm512_max_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
  const __m256 d = _mm256_max_ps(_mm512_castps512_ps256(c), _mm512_extractf32x8_ps(c, 1));
  const __m128 e = _mm_max_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
  return _mm_mul_ps(e, _mm_set1_ps(rows.scale));
}

// Weights 2^(score * scale - reference), 0 past each row's end, and their sums. kFused rounds the
// difference once; it is then off by up to 2^-24 of the reference, for all keys of a row alike.
template <bool kFused>
inline void weigh(const FourRows& rows) {
  const __m512 scale = _mm512_set1_ps(rows.scale);
  for (int i = 0; i < 4; ++i) {
    const float* score = rows.scores + i * rows.stride;
    Bf16* weight = rows.weights + i * rows.stride;
    const float reference = rows.references[i];
    // Scores of -inf less 0 give weights of 0; less -inf they would give NaN.
    const __m512 base = _mm512_set1_ps(reference == kNoReference ? 0.0F : reference);
    __m512 even_sum = rows.sums[i];
    __m512 odd_sum = _mm512_setzero_ps();
    for (int key = 0; key < rows.padded_keys; key += 32) {
      const __m512 s0 = _mm512_load_ps(score + key);
      const __m512 s1 = _mm512_load_ps(score + key + 16);
      __m512 even =
          kFused ? _mm512_fmsub_ps(s0, scale, base) : _mm512_sub_ps(_mm512_mul_ps(s0, scale), base);
      __m512 odd =
          kFused ? _mm512_fmsub_ps(s1, scale, base) : _mm512_sub_ps(_mm512_mul_ps(s1, scale), base);
      even = exp2_of(even);
      odd = exp2_of(odd);
      const int left = rows.ends[i] - key;
      if (left < 32) {
        const std::uint32_t seen = left > 0 ? (1U << left) - 1U : 0U;
        even = _mm512_maskz_mov_ps(static_cast<__mmask16>(seen), even);
        odd = _mm512_maskz_mov_ps(static_cast<__mmask16>(seen >> 16), odd);
      }
      even_sum = _mm512_add_ps(even_sum, even);
      odd_sum = _mm512_add_ps(odd_sum, odd);
      const __m512bh both = _mm512_cvtne2ps_pbh(odd, even);
      _mm512_store_si512(weight + key, reinterpret_cast<const __m512i&>(both));
    }
    rows.sums[i] = _mm512_add_ps(even_sum, odd_sum);
  }
}

}  // namespace
}  // namespace ragged::cpu::amx
RAGGED_AMX_END
