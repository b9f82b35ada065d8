#pragma once

// Attention of segments whose keys fit shared memory at once: everything is loaded, each warp takes
// sixteen rows at a time, scores of all keys stay in registers, and the softmax is a single pass.
// Many small blocks an SM hide each other's loads. The number of key tiles is a constant of the
// code that runs: loops over it at run time took 1.3 to 1.7 times as long. Without masks: every row
// sees all keys of its segment.

#include <cstdint>

#include "backends/sm80/args.cuh"
#include "backends/sm80/epilogue.cuh"
#include "backends/sm80/load.cuh"
#include "backends/sm80/products.cuh"
#include "backends/sm80/schedule.cuh"
#include "backends/sm80/shapes.hpp"
#include "backends/sm80/softmax.cuh"

namespace ragged::sm80 {

template <class T, int kDim, ShortShape kShape>
struct Short {
  using Layout = TileLayout<kDim>;
  static constexpr int kRows = kShape.rows();

  const KernelArgs& p;
  const std::uint32_t warp;
  const std::uint32_t lane;
  const std::uint32_t queries;
  const std::uint32_t keys;
  const std::uint32_t values;

  // Sixteen rows against kTiles * 16 keys, of which the segment has more than kSeen.
  template <int kTiles, int kSeen>
  __device__ __forceinline__ void rows_from(const Item& item, std::int32_t row0) const {
    constexpr int kColumns = 16 * kTiles;
    const std::uint32_t own = queries + static_cast<std::uint32_t>(row0) * Layout::kPitch;
    float scores[1][kColumns / 8][4];
    score<T, kDim, 1, kColumns>(scores, own + Layout::lane_a(lane), keys + Layout::lane_b(lane));
    const std::int32_t end = item.unit.kv_len;
    if (end < kColumns) {
      const std::int32_t column = 2 * static_cast<std::int32_t>(lane % 4);
#pragma unroll
      for (int n = kSeen / 8; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (column + 8 * n + e % 2 >= end) scores[0][n][e] = -INFINITY;
        }
      }
    }
    RowState rows[1][2];
    take_scores<1, kColumns>(scores, rows, p.scale_log2, [](const float(&)[1][2]) {});
    float out[1][kDim / 8][4];
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[0][n][e] = 0.0F;
    }
    accumulate<T, kDim, 1, kColumns>(out, scores, values + Layout::lane_a(lane));
    rows[0][0].sum = quad_sum(rows[0][0].sum);
    rows[0][1].sum = quad_sum(rows[0][1].sum);
    store_rows<T, kDim, 1>(p, item, out, rows, row0, own, lane);
  }

  // The code for `tiles` key tiles. The fewest take all shorter segments too.
  template <int kTiles>
  __device__ __forceinline__ void choose(const Item& item, std::int32_t row0,
                                         std::int32_t tiles) const {
    if constexpr (kTiles == kShape.min_tiles) {
      rows_from<kTiles, 0>(item, row0);
    } else {
      if (tiles == kTiles) {
        rows_from<kTiles, 16 * (kTiles - 1)>(item, row0);
      } else {
        choose<kTiles - 1>(item, row0, tiles);
      }
    }
  }

  // Ends with a barrier.
  __device__ __forceinline__ void load(const Item& item) const {
    const std::int32_t end = item.unit.kv_len;
    const std::int32_t tiles = max((end + 15) / 16, kShape.min_tiles);
    load_queries<kDim, kRows, kShape.warps>(p, item, queries, warp, lane);
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      load_keys<kDim, kRows, kShape.warps>(p, item, which, which == 0 ? keys : values, 0, end,
                                           16 * tiles, warp, lane);
    }
    copies_commit();
    copies_wait<0>();
    __syncthreads();
    if (p.query_factor != 1.0F) {
      scale_queries<T, kDim, kRows, kShape.threads()>(queries, p.query_factor);
    }
  }

  __device__ __forceinline__ void compute(const Item& item) const {
    const std::int32_t tiles = (item.unit.kv_len + 15) / 16;
#pragma unroll 1
    for (std::int32_t row0 = 16 * static_cast<std::int32_t>(warp); row0 < item.rows;
         row0 += 16 * kShape.warps) {
      choose<kShape.key_tiles>(item, row0, tiles);
    }
  }
};

// By variant, as nvcc cannot name a kernel whose parameter is a structure.
template <class T, int kDim, Variant kVariant>
__global__ void __launch_bounds__(short_shape(kVariant, kDim).threads(),
                                  short_shape(kVariant, kDim).min_blocks)
    short_kernel(const __grid_constant__ KernelArgs p) {
  constexpr ShortShape kShape = short_shape(kVariant, kDim);
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ ScheduleMemory schedule_memory;
  constexpr std::uint32_t kTileBytes = kShape.rows() * TileLayout<kDim>::kPitch;
  const std::uint32_t base = shared_address(memory);
  const Short<T, kDim, kShape> work{p,    threadIdx.x / 32,  threadIdx.x % 32,
                                    base, base + kTileBytes, base + 2 * kTileBytes};
  Schedule<2> schedule(p, schedule_memory);
  launch_dependents();
  schedule.start();
  if (schedule.more()) {
    zero_padding<kDim, kShape.threads()>(base, 3 * kShape.rows(), p.a.head_dim);
  }
  for (; schedule.more(); schedule.advance()) {
    schedule.fetch();
    const Item& item = schedule.item();
    if (item.rows > 0) work.load(item);
    schedule.prefetch();
    if (item.rows > 0) work.compute(item);
  }
  schedule.finish();
  wait_for_prerequisites();
}

}  // namespace ragged::sm80
