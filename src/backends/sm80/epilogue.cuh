#pragma once

// From accumulators to rows of out and lse: each warp gathers its rows in shared memory, so that
// device memory is written in whole rows of 16-byte pieces. Rows past the unit are not written.

#include <cstdint>

#include "backends/sm80/args.cuh"
#include "backends/sm80/mma.cuh"
#include "backends/sm80/softmax.cuh"
#include "backends/sm80/tile.cuh"

namespace ragged::sm80 {

__device__ __forceinline__ void store_chunk(char* to, uint4 chunk, bool aligned) {
  if (aligned) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(chunk.x), "r"(chunk.y),
                 "r"(chunk.z), "r"(chunk.w)
                 : "memory");
    return;
  }
  auto* element = reinterpret_cast<std::uint16_t*>(to);
  const std::uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    element[2 * i] = static_cast<std::uint16_t>(words[i]);
    element[2 * i + 1] = static_cast<std::uint16_t>(words[i] >> 16);
  }
}

// `rows` hold whole row sums. `first_row` is the warp's first packed row; `staging` the shared
// memory of its rows, which no other warp touches.
template <class T, int kDim, int kRowTiles>
__device__ __forceinline__ void store_rows(const KernelArgs& p, const Item& item,
                                           const float (&out)[kRowTiles][kDim / 8][4],
                                           const RowState (&rows)[kRowTiles][2],
                                           std::int32_t first_row, std::uint32_t staging,
                                           std::uint32_t lane) {
  using Layout = TileLayout<kDim>;
  const std::int32_t chunks = p.a.head_dim / 8;
  RowState own;  // of the row that this lane tells the lse of: one of its quad's
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (static_cast<int>(lane % 4) == 2 * m + half) own = rows[m][half];
      // A row without visible keys has no weights: its output is 0.
      const float sum = rows[m][half].sum;
      const float factor = sum == 0.0F ? 0.0F : 1.0F / sum;
      const std::uint32_t row = 16 * m + 8 * half + lane / 4;
      const std::uint32_t even = staging + Layout::at(row, 0) + 4 * (lane % 4);
      const std::uint32_t odd = staging + Layout::at(row, 1) + 4 * (lane % 4);
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        // Columns of padding stay zero.
        shared_store_if(n < chunks, Layout::step(n % 2 == 0 ? even : odd, n / 2),
                        T::pack(out[m][n][2 * half] * factor, out[m][n][2 * half + 1] * factor));
      }
    }
  }
  const std::int64_t token0 = std::int64_t{item.unit.q_begin} + item.unit.row_begin;
  const std::int32_t first_head = item.first_head;
  const std::int32_t all = item.rows;
  if (p.a.lse.data != nullptr && lane % 4 < 2 * kRowTiles) {
    const std::int32_t row = first_row + static_cast<std::int32_t>(8 * (lane % 4) + lane / 4);
    if (row < all) {
      const std::int32_t token = token_of(p, row);
      const std::int64_t head = first_head + (row - token * p.a.heads);
      p.a.lse.data[(token0 + token) * p.a.lse.token_stride + head * p.a.lse.head_stride] =
          log_sum(own.reference, own.sum, p.scale, p.scale_log2);
    }
  }
  __syncwarp();
  const std::uint32_t chunk = lane % Layout::kLanes;
  if (static_cast<std::int32_t>(chunk) < chunks) {
    char* base = static_cast<char*>(p.a.out.data) + 16 * chunk +
                 2 * (token0 * p.a.out.token_stride + first_head * p.a.out.head_stride);
    const auto row0 = static_cast<std::int32_t>(lane / Layout::kLanes);
    const bool whole = p.a.heads == 1 && p.out_aligned && first_row + 16 * kRowTiles <= all;
    if (whole) {
      const std::int64_t stride = 2 * p.a.out.token_stride;
      char* to = base + (first_row + row0) * stride;
      const std::uint32_t at = staging + Layout::at(static_cast<std::uint32_t>(row0), chunk);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < Layout::kCopySteps; ++i) {
          const uint4 value = shared_load4(Layout::copy_step(at, i) + 16U * m * Layout::kPitch);
          store_chunk(to, value, true);
          to += Layout::kRowsPerStep * stride;
        }
      }
    } else {
#pragma unroll 1
      for (std::int32_t r = row0; r < 16 * kRowTiles && first_row + r < all;
           r += Layout::kRowsPerStep) {
        const std::int32_t token = token_of(p, first_row + r);
        const std::int64_t head = first_row + r - token * p.a.heads;
        store_chunk(base + 2 * (token * p.a.out.token_stride + head * p.a.out.head_stride),
                    shared_load4(staging + Layout::at(static_cast<std::uint32_t>(r), chunk)),
                    p.out_aligned);
      }
    }
  }
}

}  // namespace ragged::sm80
