#pragma once

// The two products of a tile, from shared memory: scores = Q K^T, and accumulators += weights V.

#include <cstdint>

#include "backends/sm80/mma.cuh"
#include "backends/sm80/tile.cuh"

namespace ragged::sm80 {

// Scores of the warp's 16 * kRowTiles rows against kColumns keys. `queries` and `keys` are the
// lane's addresses (lane_a, lane_b) of row 0.
template <class T, int kDim, int kRowTiles, int kColumns>
__device__ __forceinline__ void score(float (&scores)[kRowTiles][kColumns / 8][4],
                                      std::uint32_t queries, std::uint32_t keys) {
  using Layout = TileLayout<kDim>;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[m][n][e] = 0.0F;
    }
  }
  // Fragments come one product ahead of their use.
  std::uint32_t a[2][kRowTiles][4];
  std::uint32_t b[2][4];
  const auto load_a = [&](int k) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      load_matrices(a[k % 2][m], Layout::step(queries, k) + 16U * m * Layout::kPitch);
    }
  };
  constexpr int kPairs = kColumns / 16;
  const auto load_b = [&](int i) {
    load_matrices(b[i % 2], Layout::step(keys, i / kPairs) + 16U * (i % kPairs) * Layout::kPitch);
  };
  load_a(0);
  load_b(0);
#pragma unroll
  for (int k = 0; k < Layout::kSteps; ++k) {
#pragma unroll
    for (int n = 0; n < kPairs; ++n) {
      const int i = k * kPairs + n;
      if (i + 1 < Layout::kSteps * kPairs) load_b(i + 1);
      if (n == kPairs - 1 && k + 1 < Layout::kSteps) load_a(k + 1);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        T::multiply(scores[m][2 * n], a[k % 2][m], b[i % 2][0], b[i % 2][1]);
        T::multiply(scores[m][2 * n + 1], a[k % 2][m], b[i % 2][2], b[i % 2][3]);
      }
    }
  }
}

// Weights are rounded to the type of the values. `values` is the lane's address (lane_a) of row 0.
template <class T, int kDim, int kRowTiles, int kColumns>
__device__ __forceinline__ void accumulate(float (&out)[kRowTiles][kDim / 8][4],
                                           const float (&weights)[kRowTiles][kColumns / 8][4],
                                           std::uint32_t values) {
  using Layout = TileLayout<kDim>;
  std::uint32_t b[2][4];
  const auto load_b = [&](int i) {
    load_matrices_transposed(b[i % 2], Layout::step(values, i % Layout::kSteps) +
                                           16U * (i / Layout::kSteps) * Layout::kPitch);
  };
  load_b(0);
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) {
    std::uint32_t a[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const auto& low = weights[m][2 * k];
      const auto& high = weights[m][2 * k + 1];
      a[m][0] = T::pack(low[0], low[1]);
      a[m][1] = T::pack(low[2], low[3]);
      a[m][2] = T::pack(high[0], high[1]);
      a[m][3] = T::pack(high[2], high[3]);
    }
#pragma unroll
    for (int n = 0; n < Layout::kSteps; ++n) {
      const int i = k * Layout::kSteps + n;
      if (i + 1 < kColumns / 16 * Layout::kSteps) load_b(i + 1);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        T::multiply(out[m][2 * n], a[m], b[i % 2][0], b[i % 2][1]);
        T::multiply(out[m][2 * n + 1], a[m], b[i % 2][2], b[i % 2][3]);
      }
    }
  }
}

template <int kRowTiles, int kDim>
__device__ __forceinline__ void rescale(float (&out)[kRowTiles][kDim / 8][4],
                                        const float (&factor)[kRowTiles][2]) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[m][n][e] *= factor[m][e / 2];
    }
  }
}

// A weight of 0 times NaN is NaN: where some rows of a tile do not see all of its keys, values that
// are not finite must not enter the product. They are added here to the rows that see them (any
// weight times Inf or NaN leaves Inf or NaN) and become zeros in shared memory. Called by all
// threads of the block; ends with a barrier where it changed the tile.
template <class T, int kDim, int kRowTiles, int kKeys, int kThreads>
__device__ __forceinline__ void guard_values(float (&out)[kRowTiles][kDim / 8][4],
                                             const std::int32_t* ends, std::int32_t first_key,
                                             std::uint32_t tile, std::uint32_t lane) {
  using Layout = TileLayout<kDim>;
  bool found = false;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kKeys * Layout::kChunks; i += kThreads) {
    const uint4 chunk = shared_load4(tile + 16 * static_cast<std::uint32_t>(i));
    found = found || not_finite<T>(chunk.x) || not_finite<T>(chunk.y) || not_finite<T>(chunk.z) ||
            not_finite<T>(chunk.w);
  }
  if (__syncthreads_or(found ? 1 : 0) == 0) return;
#pragma unroll 1
  for (int key = 0; key < kKeys; ++key) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const std::uint32_t packed = shared_load(
          tile + Layout::at(static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(n)) +
          4 * (lane % 4));
      if (!not_finite<T>(packed)) continue;
      const float2 pair = T::unpack(packed);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (first_key + key >= ends[16 * m + 8 * half + static_cast<std::int32_t>(lane / 4)]) {
            continue;
          }
          if (!isfinite(pair.x)) out[m][n][2 * half] += pair.x;
          if (!isfinite(pair.y)) out[m][n][2 * half + 1] += pair.y;
        }
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kKeys * kDim / 2; i += kThreads) {
    const std::uint32_t at = tile + 4 * static_cast<std::uint32_t>(i);
    const std::uint32_t packed = shared_load(at);
    std::uint32_t kept = packed;
    if ((packed & T::kExponentBits) == T::kExponentBits) kept &= 0xffff0000U;
    if (((packed >> 16) & T::kExponentBits) == T::kExponentBits) kept &= 0x0000ffffU;
    if (kept != packed) shared_store(at, kept);
  }
  __syncthreads();
}

}  // namespace ragged::sm80
