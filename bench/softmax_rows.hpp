#pragma once

// The softmax that stands between the two matrix products of a peer, vectorized for every SIMD
// target and dispatched at run time.

#include <cstdint>
#include <limits>

namespace ragged::bench {

// What a query row has seen so far, in units of log2.
struct RowState {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
};

// Rows of scores start kScorePad floats apart or a multiple of it: whole vectors may be read and
// written past a row's last key.
inline constexpr std::int64_t kScorePad = 64;

// scores: [rows, keys], `stride` floats apart, a multiple of kScorePad, keys <= stride. For each
// row, with scale = sm_scale * log2(e): entries below visible[row] become 2^(scale * score - max),
// the others up to `keys` become 0. Updates the row's state, and sets rescale[row] to the factor
// that takes what was summed before to the new maximum.
void softmax_rows(float* scores, std::int64_t stride, std::int64_t rows, std::int64_t keys,
                  const std::int64_t* visible, float scale, RowState* states, float* rescale);

// out[row][0..head_dim) *= factors[row], rows `stride` floats apart. Rows of factor 0 become 0,
// whatever they held.
void scale_rows(float* out, std::int64_t stride, std::int64_t rows, std::int64_t head_dim,
                const float* factors);

}  // namespace ragged::bench
