#pragma once

// Split keys: pieces of a unit's keys have a softmax of their own each, merged in their order.
// Pieces that ran side by side meet in slots of the workspace, where the block that comes last
// merges them; a block that takes all pieces in turn keeps what it has merged in a slot of its own.
// Both do the same arithmetic in the same order.

#include <cstdint>

#include "backends/sm80/args.cuh"
#include "backends/sm80/softmax.cuh"

namespace ragged::sm80 {

// A slot: accumulators as 16-byte pieces [warp][piece][lane], then reference and sum of every row.
template <int kDim, int kRowTiles, int kWarps>
class Slot {
 public:
  __device__ __forceinline__ Slot(const KernelArgs& p, std::int64_t index, std::uint32_t warp,
                                  std::uint32_t lane)
      : pieces_(reinterpret_cast<float4*>(p.partials + index * p.slot_floats) +
                warp * kPieces * 32 + lane),
        stats_(reinterpret_cast<float2*>(p.partials + index * p.slot_floats +
                                         std::int64_t{kWarps} * kPieces * 128) +
               16 * kRowTiles * warp + lane / 4),
        lane_(lane) {}

  // `rows` hold whole row sums.
  __device__ __forceinline__ void store(const float (&out)[kRowTiles][kDim / 8][4],
                                        const RowState (&rows)[kRowTiles][2]) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const auto& o = out[m][n];
        __stcg(pieces_ + 32 * (m * (kDim / 8) + n), make_float4(o[0], o[1], o[2], o[3]));
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (lane_ % 4 == 0) {
          __stcg(stats_ + 16 * m + 8 * half,
                 make_float2(rows[m][half].reference, rows[m][half].sum));
        }
      }
    }
  }

  // `out` and `rows` become both results together; the slot's pieces come after them (`after`) or
  // before.
  __device__ __forceinline__ void merge(float (&out)[kRowTiles][kDim / 8][4],
                                        RowState (&rows)[kRowTiles][2], bool after,
                                        float scale_log2) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      float own[2];
      float others[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 stats = __ldcg(stats_ + 16 * m + 8 * half);
        RowState& row = rows[m][half];
        const float reference = fmaxf(stats.x, row.reference);
        own[half] = rebase(row.reference, reference, scale_log2);
        others[half] = rebase(stats.x, reference, scale_log2);
        row.reference = reference;
        row.sum = join(row.sum, own[half], stats.y, others[half], after);
      }
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const float4 piece = __ldcg(pieces_ + 32 * (m * (kDim / 8) + n));
        const float other[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          out[m][n][e] = join(out[m][n][e], own[e / 2], other[e], others[e / 2], after);
        }
      }
    }
  }

  // What was stored.
  __device__ __forceinline__ void load(float (&out)[kRowTiles][kDim / 8][4],
                                       RowState (&rows)[kRowTiles][2]) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const float4 piece = __ldcg(pieces_ + 32 * (m * (kDim / 8) + n));
        out[m][n][0] = piece.x;
        out[m][n][1] = piece.y;
        out[m][n][2] = piece.z;
        out[m][n][3] = piece.w;
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 stats = __ldcg(stats_ + 16 * m + 8 * half);
        rows[m][half] = {stats.x, stats.y};
      }
    }
  }

 private:
  // The earlier piece is rounded once, the later twice, whichever of them is in registers.
  static __device__ __forceinline__ float join(float own, float own_factor, float other,
                                               float other_factor, bool after) {
    const float first = after ? own : other;
    const float first_factor = after ? own_factor : other_factor;
    const float second = after ? other : own;
    const float second_factor = after ? other_factor : own_factor;
    return __fmaf_rn(first, first_factor, __fmul_rn(second, second_factor));
  }

  static constexpr std::int64_t kPieces = kRowTiles * (kDim / 8);
  float4* pieces_;
  float2* stats_;
  std::uint32_t lane_;
};

// Counts this block in for the unit whose first slot is `first`; true in all threads of the block
// that came last, which sees what all others stored and leaves the counter at zero.
__device__ __forceinline__ bool last_to_arrive(const KernelArgs& p, std::int64_t first,
                                               std::int32_t pieces, std::uint32_t* shared) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    std::uint32_t* counter = p.counters + first;
    const bool last = atomicAdd(counter, 1U) == static_cast<std::uint32_t>(pieces) - 1U;
    if (last) *counter = 0;
    *shared = last ? 1U : 0U;
  }
  __syncthreads();
  const bool last = *shared != 0;
  if (last) __threadfence();
  return last;
}

}  // namespace ragged::sm80
