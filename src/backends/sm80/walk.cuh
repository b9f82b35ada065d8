#pragma once

// Attention of tiles of rows that stream the keys of their segment: online softmax over tiles of
// keys, the next tile on its way while one is computed.

#include <cstdint>

#include "backends/sm80/args.cuh"
#include "backends/sm80/epilogue.cuh"
#include "backends/sm80/load.cuh"
#include "backends/sm80/partials.cuh"
#include "backends/sm80/products.cuh"
#include "backends/sm80/schedule.cuh"
#include "backends/sm80/shapes.hpp"
#include "backends/sm80/softmax.cuh"

namespace ragged::sm80 {

template <class T, int kDim, WalkShape kShape>
struct Walk {
  using Layout = TileLayout<kDim>;
  static constexpr int kRowTiles = kShape.row_tiles;
  static constexpr int kKeys = kShape.keys;
  static constexpr int kThreads = kShape.threads();
  static constexpr std::uint32_t kTileBytes = kKeys * Layout::kPitch;

  const KernelArgs& p;
  const std::uint32_t warp;
  const std::uint32_t lane;
  const std::uint32_t queries;  // then two stages of keys and values
  std::int32_t* const ends;     // visible end of every row

  [[nodiscard]] __device__ __forceinline__ std::uint32_t key_tile(int stage) const {
    return queries + kShape.rows() * Layout::kPitch +
           static_cast<std::uint32_t>(stage) * 2 * kTileBytes;
  }

  // One tile of keys and values, of keys [begin, end).
  __device__ __forceinline__ void load_tile(const Item& item, int stage, std::int32_t begin,
                                            std::int32_t end) const {
    // Where a tile has too few rows for all warps, half of them load keys and half values.
    constexpr bool kApart = kKeys / 16 < kShape.warps;
    constexpr int kWarps = kApart ? kShape.warps / 2 : kShape.warps;
    const std::uint32_t w = kApart ? warp % kWarps : warp;
    const int own = warp < kWarps ? 0 : 1;
    const std::int32_t prefix_len = item.unit.prefix_len;
    const bool in_prefix = begin < prefix_len;
    if (p.keys_aligned && begin + kKeys <= end && (!in_prefix || begin + kKeys <= prefix_len)) {
      // Nearly every tile: whole, and from one source.
#pragma unroll
      for (int which = 0; which < 2; ++which) {
        if (kApart && which != own) continue;
        const RowPointer first = in_prefix ? item.prefix(which) : item.fresh(which);
        const std::int64_t stride =
            2 * (in_prefix ? (which == 0 ? p.a.prefix_k : p.a.prefix_v).token_stride
                           : (which == 0 ? p.a.k : p.a.v).token_stride);
        load_whole_rows<kDim, kKeys, kWarps>(key_tile(stage) + which * kTileBytes,
                                             first + begin * stride, stride, p.a.head_dim / 8, w,
                                             lane);
      }
      return;
    }
#pragma unroll 1
    for (int which = kApart ? own : 0; which <= (kApart ? own : 1); ++which) {
      load_keys<kDim, kKeys, kWarps>(p, item, which, key_tile(stage) + which * kTileBytes, begin,
                                     end, kKeys, w, lane);
    }
  }

  // Keys [begin, end) for all rows of the item. Leaves whole row sums. Begins with a barrier, after
  // which shared memory is overwritten.
  __device__ __forceinline__ void piece(const Item& item, std::int32_t begin, std::int32_t end,
                                        bool load_the_queries, float (&out)[kRowTiles][kDim / 8][4],
                                        RowState (&rows)[kRowTiles][2]) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      rows[m][0] = RowState{};
      rows[m][1] = RowState{};
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[m][n][e] = 0.0F;
      }
    }
    const std::int32_t first_row = static_cast<std::int32_t>(warp) * 16 * kRowTiles;
    const std::int32_t last_row = min(first_row + 16 * kRowTiles, item.rows) - 1;
    const bool alive = first_row < item.rows;
    const std::int32_t* warp_ends = ends + first_row;
    const std::uint32_t lane_queries =
        queries + static_cast<std::uint32_t>(first_row) * Layout::kPitch + Layout::lane_a(lane);
    const std::uint32_t lane_keys = Layout::lane_b(lane);
    const std::uint32_t lane_values = Layout::lane_a(lane);
    int stage = 1;
    // The first step only loads.
#pragma unroll 1
    for (std::int32_t key = begin - kKeys; key < end; key += kKeys, stage ^= 1) {
      copies_wait<0>();
      __syncthreads();  // this tile is there for all, and none reads the other any more
      if (key < begin && load_the_queries && begin < end) {
        load_queries<kDim, kShape.rows(), kShape.warps>(p, item, queries, warp, lane);
      }
      if (key + kKeys < end) load_tile(item, stage ^ 1, key + kKeys, end);
      copies_commit();
      if (key < begin) continue;
      if (key == begin && load_the_queries && p.query_factor != 1.0F) {
        scale_queries<T, kDim, kShape.rows(), kThreads>(queries, p.query_factor);
      }
      const std::uint32_t tile = key_tile(stage);
      if (item.min_end < min(key + kKeys, item.max_end)) {
        guard_values<T, kDim, kRowTiles, kKeys, kThreads>(out, warp_ends, key, tile + kTileBytes,
                                                          lane);
      }
      if (!alive || key >= ends[last_row]) continue;
      float scores[kRowTiles][kKeys / 8][4];
      score<T, kDim, kRowTiles, kKeys>(scores, lane_queries, tile + lane_keys);
      if (key + kKeys > warp_ends[0]) {
        mask_scores<kRowTiles, kKeys>(scores, warp_ends, key, lane);
      }
      take_scores<kRowTiles, kKeys>(
          scores, rows, p.scale_log2,
          [&](const float(&factor)[kRowTiles][2]) { rescale<kRowTiles, kDim>(out, factor); });
      accumulate<T, kDim, kRowTiles, kKeys>(out, scores, tile + kTileBytes + lane_values);
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      rows[m][0].sum = quad_sum(rows[m][0].sum);
      rows[m][1].sum = quad_sum(rows[m][1].sum);
    }
  }

  __device__ __forceinline__ void finish(const Item& item,
                                         const float (&out)[kRowTiles][kDim / 8][4],
                                         const RowState (&rows)[kRowTiles][2]) const {
    const std::int32_t first_row = static_cast<std::int32_t>(warp) * 16 * kRowTiles;
    if (first_row >= item.rows) return;
    store_rows<T, kDim, kRowTiles>(p, item, out, rows, first_row,
                                   queries + static_cast<std::uint32_t>(first_row) * Layout::kPitch,
                                   lane);
  }

  // `flag`: a word of shared memory.
  __device__ __forceinline__ void item(const Item& item, std::uint32_t* flag) const {
    for (std::int32_t row = static_cast<std::int32_t>(threadIdx.x); row < kShape.rows();
         row += kThreads) {
      // Rows past the unit see all: they are computed, and dropped.
      ends[row] = row < item.rows ? item.end_of(p, row) : item.max_end;
    }
    float out[kRowTiles][kDim / 8][4];
    RowState rows[kRowTiles][2];
    const std::int32_t step = item.split_keys > 0 ? item.split_keys : item.max_end;
    // Pieces that some row sees. One at least: rows without keys are written too.
    const std::int32_t pieces = item.max_end > step ? (item.max_end + step - 1) / step : 1;
    const bool in_turn = item.unit.partial < 0 || pieces == 1;
    if (in_turn && item.unit.chunk > 0) return;
    if (item.unit.chunk >= pieces) return;
    using Piece = Slot<kDim, kRowTiles, kShape.warps>;
    const std::int64_t groups = p.a.head_groups;
    // Slot of piece 0, where the merged pieces gather too.
    const std::int64_t slot = in_turn
                                  ? p.turn_slot + blockIdx.x
                                  : item.unit.partial - item.unit.chunk * groups + item.head_group;
    const bool alive = static_cast<std::int32_t>(warp) * 16 * kRowTiles < item.rows;
    bool beside = !in_turn;  // this block has a piece alone, until it is the last to arrive
    bool gather = false;     // pieces come from their slots
#pragma unroll 1
    for (std::int32_t i = in_turn ? 0 : item.unit.chunk;;) {
      if (!gather) {
        piece(item, i * step, min((i + 1) * step, item.max_end), beside || i == 0, out, rows);
      }
      if (pieces == 1) break;
      if (alive) {
        if (gather && i == 0) {
          Piece(p, slot, warp, lane).load(out, rows);
        } else if (!beside && i > 0) {
          Piece(p, slot + (gather ? i * groups : 0), warp, lane)
              .merge(out, rows, gather, p.scale_log2);
        }
        if (!gather && (beside || i + 1 < pieces)) {
          Piece(p, slot + (beside ? i * groups : 0), warp, lane).store(out, rows);
        }
      }
      if (beside) {
        if (!last_to_arrive(p, slot, pieces, flag)) return;
        beside = false;
        gather = true;
        i = 0;
        continue;
      }
      if (++i == pieces) break;
    }
    finish(item, out, rows);
  }
};

// By variant, as nvcc cannot name a kernel whose parameter is a structure.
template <class T, int kDim, Variant kVariant>
__global__ void __launch_bounds__(walk_shape(kVariant, kDim).threads(),
                                  walk_shape(kVariant, kDim).min_blocks)
    walk_kernel(const __grid_constant__ KernelArgs p) {
  constexpr WalkShape kShape = walk_shape(kVariant, kDim);
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ ScheduleMemory schedule_memory;
  __shared__ std::uint32_t flag;
  constexpr int kTileRows = kShape.rows() + 4 * kShape.keys;
  const std::uint32_t base = shared_address(memory);
  const Walk<T, kDim, kShape> walk{
      p, threadIdx.x / 32, threadIdx.x % 32, base,
      reinterpret_cast<std::int32_t*>(memory + kTileRows * TileLayout<kDim>::kPitch)};
  Schedule<2> schedule(p, schedule_memory);
  launch_dependents();
  schedule.start();
  if (schedule.more()) zero_padding<kDim, kShape.threads()>(base, kTileRows, p.a.head_dim);
  for (; schedule.more(); schedule.advance()) {
    schedule.fetch();
    if (schedule.item().rows > 0) walk.item(schedule.item(), &flag);
    schedule.prefetch();
  }
  schedule.finish();
  wait_for_prerequisites();
}

}  // namespace ragged::sm80
