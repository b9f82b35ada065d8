#pragma once

// From a warpgroup's accumulators to rows of out and lse.

#include <cstdint>

#include "backends/sm90/mask.cuh"
#include "backends/sm90/ptx.cuh"
#include "backends/sm90/schedule.cuh"
#include "backends/sm90/shape.cuh"
#include "backends/sm90/softmax.cuh"
#include "device/attention_args.hpp"

namespace ragged::sm90 {

// Within each quad of lanes, turns four registers of four columns' pairs into one lane's eight
// neighbouring columns: lane t gets everyone's t-th.
__device__ __forceinline__ void transpose_quad(std::uint32_t (&x)[4]) {
  const unsigned lane = threadIdx.x;
#pragma unroll
  for (unsigned bit = 1; bit <= 2; bit *= 2) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if ((i & bit) != 0) continue;
      const std::uint32_t give = upper ? x[i] : x[i | bit];
      const std::uint32_t got = __shfl_xor_sync(~0U, give, bit);
      if (upper) {
        x[i] = got;
      } else {
        x[i | bit] = got;
      }
    }
  }
}

// Writes one row of a pair: kHigh picks it. All lanes come here; those of a row that is not live
// write nothing.
template <class T, bool kHigh, int kDim>
__device__ __forceinline__ void write_row(const float (&out)[kDim / 2], float factor, T* row,
                                          bool live) {
  constexpr int kAt = kHigh ? 2 : 0;
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int block = 0; block + 4 <= kDim / 8; block += 4) {
    std::uint32_t x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = 4 * (block + i) + kAt;
      x[i] = pack<T>(out[at] * factor, out[at + 1] * factor);
    }
    transpose_quad(x);
    if (live) store_16_bytes(row + 8 * (block + lane), x);
  }
#pragma unroll
  for (int block = kDim / 32 * 4; block < kDim / 8; ++block) {
    const int at = 4 * block + kAt;
    if (live) {
      *reinterpret_cast<std::uint32_t*>(row + 8 * block + 2 * lane) =
          pack<T>(out[at] * factor, out[at + 1] * factor);
    }
  }
}

// A row without visible keys has sum 0: output 0, lse -inf.
__device__ __forceinline__ float reciprocal_or_zero(float sum) {
  return sum == 0.0F ? 0.0F : reciprocal(sum);
}

// Natural logarithm of the sum of exponentials, from a reference in powers of two.
__device__ __forceinline__ float row_lse(float reference_log2, float sum) {
  constexpr float kLn2 = 0.693147180559945309F;
  if (sum == 0.0F) return -__int_as_float(0x7f800000);
  return fmaf(reference_log2, kLn2, logf(sum));
}

// Divides by the sums and writes the live rows. Preconditions: finish_sums().
template <class T, int kDim>
__device__ __forceinline__ void write_rows(const device::AttentionArgs& args, const Item& item,
                                           const float (&out)[kDim / 2], RowPair<float> sum,
                                           RowPair<float> reference_log2, RowPair<TileRow> rows) {
  T* const base = static_cast<T*>(args.out.data);
  const auto row_of = [&](const TileRow& row) {
    return base + (item.q_row + row.token) * args.out.token_stride +
           (item.head + row.head) * args.out.head_stride;
  };
  write_row<T, false, kDim>(out, reciprocal_or_zero(sum.low), row_of(rows.low), rows.low.live);
  write_row<T, true, kDim>(out, reciprocal_or_zero(sum.high), row_of(rows.high), rows.high.live);
  if (args.lse.data == nullptr || threadIdx.x % 4 != 0) return;
  const auto lse_of = [&](const TileRow& row) {
    return args.lse.data + (item.q_row + row.token) * args.lse.token_stride +
           (item.head + row.head) * args.lse.head_stride;
  };
  if (rows.low.live) *lse_of(rows.low) = row_lse(reference_log2.low, sum.low);
  if (rows.high.live) *lse_of(rows.high) = row_lse(reference_log2.high, sum.high);
}

}  // namespace ragged::sm90
