#pragma once

// Rows of q, k and v into shared memory: sixteen bytes at a time where rows begin at multiples of
// them, element by element elsewhere. Nothing outside a segment's rows and its head's columns is
// read; the columns that pad a head dim are zeroed once (zero_padding) and stay so.

#include <cstdint>

#include "backends/sm80/args.cuh"
#include "backends/sm80/mma.cuh"
#include "backends/sm80/tile.cuh"

namespace ragged::sm80 {

// Eight elements whose address is any multiple of two bytes.
__device__ __forceinline__ uint4 load_elements(const char* from) {
  const auto* element = reinterpret_cast<const std::uint16_t*>(from);
  const auto two = [&](int i) {
    return static_cast<std::uint32_t>(__ldg(element + i)) |
           (static_cast<std::uint32_t>(__ldg(element + i + 1)) << 16);
  };
  return {two(0), two(2), two(4), two(6)};
}

// What a copy of rows of one tensor needs to know.
struct RowSource {
  RowPointer first;     // row 0 of the tile
  std::int64_t stride;  // bytes
  bool aligned;
};

// All kRows rows from `first` on, `stride` bytes apart, into the tile at `to`.
template <int kDim, int kRows, int kWarps>
__device__ __forceinline__ void load_whole_rows(std::uint32_t to, RowPointer first,
                                                std::int64_t stride, std::int32_t chunks,
                                                std::uint32_t warp, std::uint32_t lane) {
  using Layout = TileLayout<kDim>;
  const std::uint32_t row = lane / Layout::kLanes;
  const std::uint32_t chunk = lane % Layout::kLanes;
  if (static_cast<std::int32_t>(chunk) >= chunks) return;
#pragma unroll
  for (int block = 0; block < kRows / 16; block += kWarps) {
    const std::uint32_t row0 = 16 * (block + warp);
    if (kRows / 16 % kWarps != 0 && row0 >= kRows) break;
    RowPointer source = first + (row0 + row) * stride + 16 * chunk;
    const std::uint32_t at = to + row0 * Layout::kPitch + Layout::at(row, chunk);
#pragma unroll
    for (int i = 0; i < Layout::kCopySteps; ++i) {
      copy_async(Layout::copy_step(at, i), source);
      source += Layout::kRowsPerStep * stride;
    }
  }
}

// Rows [begin, end) of `from` into the same rows of the tile at `to`, by warps [0, kWarps), sixteen
// rows each at a time; rows [last, limit) become zeros, limit a multiple of 16.
template <int kDim, int kRows, int kWarps>
__device__ __forceinline__ void load_rows(std::uint32_t to, const RowSource& from,
                                          std::int32_t begin, std::int32_t end, std::int32_t last,
                                          std::int32_t limit, std::int32_t chunks,
                                          std::uint32_t warp, std::uint32_t lane) {
  using Layout = TileLayout<kDim>;
  const auto row = static_cast<std::int32_t>(lane / Layout::kLanes);
  const std::uint32_t chunk = lane % Layout::kLanes;
  const bool active = static_cast<std::int32_t>(chunk) < chunks;
#pragma unroll
  for (int block = 0; block < kRows / 16; block += kWarps) {
    const std::int32_t row0 = 16 * (block + static_cast<std::int32_t>(warp));
    if (row0 >= limit) break;
    RowPointer source = from.first + (row0 + row) * from.stride + 16 * chunk;
    const std::uint32_t tile = to + static_cast<std::uint32_t>(row0) * Layout::kPitch;
    if (from.aligned && row0 >= begin && row0 + 16 <= end) {
      if (active) {
        const std::uint32_t at = tile + Layout::at(static_cast<std::uint32_t>(row), chunk);
#pragma unroll
        for (int i = 0; i < Layout::kCopySteps; ++i) {
          copy_async(Layout::copy_step(at, i), source);
          source += Layout::kRowsPerStep * from.stride;
        }
      }
    } else if (active) {
      // The edges of a segment, and rows at odd addresses.
#pragma unroll 1
      for (std::int32_t r = row; r < 16; r += Layout::kRowsPerStep) {
        const std::uint32_t at = tile + Layout::at(static_cast<std::uint32_t>(r), chunk);
        if (row0 + r >= begin && row0 + r < end) {
          if (from.aligned) {
            copy_async(at, source);
          } else {
            shared_store(at, load_elements(source));
          }
        } else if (row0 + r >= last) {
          shared_store(at, uint4{0, 0, 0, 0});
        }
        source += Layout::kRowsPerStep * from.stride;
      }
    }
  }
}

// Keys (which = 0) or values (1) [begin, end) of the item's segment into a tile that begins at key
// `begin`: the prefix's rows first. Rows past the end become zeros up to row `limit`.
template <int kDim, int kRows, int kWarps>
__device__ __forceinline__ void load_keys(const KernelArgs& p, const Item& item, int which,
                                          std::uint32_t to, std::int32_t begin, std::int32_t end,
                                          std::int32_t limit, std::uint32_t warp,
                                          std::uint32_t lane) {
  const std::int32_t rows = end - begin < kRows ? end - begin : kRows;
  const std::int32_t split = item.unit.prefix_len - begin;  // rows below it lie in the prefix
  // At most two rounds: which source is a value, not a second copy of the loads.
#pragma unroll 1
  for (bool in_prefix = split > 0;; in_prefix = false) {
    const std::int64_t stride =
        2 * (in_prefix ? (which == 0 ? p.a.prefix_k : p.a.prefix_v) : (which == 0 ? p.a.k : p.a.v))
                .token_stride;
    const RowPointer first = in_prefix ? item.prefix(which) : item.fresh(which);
    load_rows<kDim, kRows, kWarps>(to, {first + begin * stride, stride, p.keys_aligned},
                                   in_prefix ? 0 : split, in_prefix ? min(rows, split) : rows, rows,
                                   limit, p.a.head_dim / 8, warp, lane);
    if (!in_prefix || split >= rows) break;
  }
}

// Packed query rows of an item: row r is head r % heads of token r / heads.
template <int kDim, int kRows, int kWarps>
__device__ __forceinline__ void load_queries(const KernelArgs& p, const Item& item,
                                             std::uint32_t to, std::uint32_t warp,
                                             std::uint32_t lane) {
  using Layout = TileLayout<kDim>;
  const std::int32_t chunks = p.a.head_dim / 8;
  const std::int32_t rows = item.rows;
  if (p.a.heads == 1) {
    load_rows<kDim, kRows, kWarps>(to, {item.q(), 2 * p.a.q.token_stride, p.q_aligned}, 0, rows,
                                   kRows, (rows + 15) / 16 * 16, chunks, warp, lane);
    return;
  }
  const std::uint32_t chunk = lane % Layout::kLanes;
  if (static_cast<std::int32_t>(chunk) >= chunks) return;
  const RowPointer from = item.q() + 16 * chunk;
  // The rows of sixteen that a warp takes, as in load_rows.
  constexpr int kBlocks = (kRows / 16 + kWarps - 1) / kWarps;
#pragma unroll 2
  for (std::int32_t i = 0; i < kBlocks * Layout::kCopySteps; ++i) {
    const std::int32_t block = i / Layout::kCopySteps * kWarps + static_cast<std::int32_t>(warp);
    const std::int32_t row = 16 * block + i % Layout::kCopySteps * Layout::kRowsPerStep +
                             static_cast<std::int32_t>(lane / Layout::kLanes);
    if (row >= rows) break;
    const std::int32_t token = token_of(p, row);
    const std::int64_t head = row - token * p.a.heads;
    const std::uint32_t at = to + Layout::at(static_cast<std::uint32_t>(row), chunk);
    const RowPointer source = from + 2 * (token * p.a.q.token_stride + head * p.a.q.head_stride);
    if (p.q_aligned) {
      copy_async(at, source);
    } else {
      shared_store(at, load_elements(source));
    }
  }
}

// Multiplies the queries in shared memory, for scales that are not positive. Ends with a barrier.
template <class T, int kDim, int kRows, int kThreads>
__device__ __forceinline__ void scale_queries(std::uint32_t queries, float factor) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDim / 2; i += kThreads) {
    const std::uint32_t at = queries + 4 * static_cast<std::uint32_t>(i);
    const float2 pair = T::unpack(shared_load(at));
    shared_store(at, T::pack(pair.x * factor, pair.y * factor));
  }
  __syncthreads();
}

// Zeroes the columns [head_dim, kDim) of `rows` rows.
template <int kDim, int kThreads>
__device__ __forceinline__ void zero_padding(std::uint32_t tile, int rows, int head_dim) {
  using Layout = TileLayout<kDim>;
  if (head_dim == kDim) return;
  const int chunks = head_dim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * (Layout::kChunks - chunks);
       i += kThreads) {
    const int row = i % rows;
    shared_store(tile + Layout::at(static_cast<std::uint32_t>(row),
                                   static_cast<std::uint32_t>(chunks + i / rows)),
                 uint4{0, 0, 0, 0});
  }
}

}  // namespace ragged::sm80
