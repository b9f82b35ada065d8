#pragma once

// Attention of fp32 tensors by fp32 multiply-adds: 64 rows against 32 keys at a time. A thread owns
// four rows, 16 apart, and every eighth key or four columns of every 32. Simple rather than fast:
// matrix units would round the inputs.

#include <cstdint>

#include "backends/sm80/args.cuh"
#include "backends/sm80/mma.cuh"
#include "backends/sm80/schedule.cuh"
#include "backends/sm80/shapes.hpp"
#include "backends/sm80/softmax.cuh"

namespace ragged::sm80 {

template <int kDim>
class Plain {
 public:
  // Rows are padded by 16 bytes: eight rows' reads of one column fall on all banks.
  static constexpr int kPitch = kDim + 4;
  static constexpr int kRows = kPlainRows;
  static constexpr int kKeys = kPlainKeys;
  static constexpr int kColumns = kDim / 8;  // of a thread

  __device__ __forceinline__ Plain(const KernelArgs& p, float* memory)
      : p_(p),
        queries_(memory),
        keys_(queries_ + kRows * kPitch),
        weights_(keys_ + kKeys * kPitch),
        ends_(reinterpret_cast<std::int32_t*>(weights_ + kRows * kWeightPitch)),
        lane_(static_cast<int>(threadIdx.x % 8)),
        row_(static_cast<int>(threadIdx.x / 8)) {}

  // Begins with shared memory free.
  __device__ __forceinline__ void item(const Item& item) const {
    load_queries(item);
    for (int row = static_cast<int>(threadIdx.x); row < kRows; row += kPlainThreads) {
      ends_[row] = row < item.rows ? item.end_of(p_, row) : item.max_end;
    }
    float out[4][kColumns] = {};
    float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    float sum[4] = {};
#pragma unroll 1
    for (std::int32_t key = 0; key < item.max_end; key += kKeys) {
      load_keys(item, 0, key);
      __syncthreads();
      float scores[4][4] = {};
      score(scores);
      __syncthreads();
      load_keys(item, 1, key);
      weigh(scores, key, out, top, sum);
      __syncthreads();
      // A weight of 0 times NaN is NaN: where some rows do not see all keys, those are left out.
      if (item.min_end < min(key + kKeys, item.max_end)) {
        accumulate<true>(out, key);
      } else {
        accumulate<false>(out, key);
      }
      __syncthreads();
    }
    store(item, out, top, sum);
  }

 private:
  static constexpr int kWeightPitch = kKeys + 4;

  // Sixteen bytes of a row, by elements where it does not begin at a multiple of them.
  static __device__ __forceinline__ float4 load4(const float* from, bool aligned) {
    if (aligned) return __ldg(reinterpret_cast<const float4*>(from));
    return {__ldg(from), __ldg(from + 1), __ldg(from + 2), __ldg(from + 3)};
  }

  __device__ __forceinline__ void load_queries(const Item& item) const {
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kDim / 4; i += kPlainThreads) {
      const int row = i / (kDim / 4);
      const int column = 4 * (i % (kDim / 4));
      float4 value = {};
      if (row < item.rows && column < p_.a.head_dim) {
        const std::int32_t token = token_of(p_, row);
        const std::int64_t head = row - token * p_.a.heads;
        value = load4(reinterpret_cast<const float*>(item.q()) + token * p_.a.q.token_stride +
                          head * p_.a.q.head_stride + column,
                      p_.q_aligned);
        value.x *= p_.query_factor;
        value.y *= p_.query_factor;
        value.z *= p_.query_factor;
        value.w *= p_.query_factor;
      }
      *reinterpret_cast<float4*>(queries_ + row * kPitch + column) = value;
    }
  }

  // Keys (which = 0) or values (1) from `begin`; zeros past the last that a row sees.
  __device__ __forceinline__ void load_keys(const Item& item, int which, std::int32_t begin) const {
    const std::int64_t stride = 4 * (which == 0 ? p_.a.k : p_.a.v).token_stride;
    const std::int64_t prefix_stride =
        4 * (which == 0 ? p_.a.prefix_k : p_.a.prefix_v).token_stride;
    const RowPointer fresh = item.fresh(which);
    const RowPointer prefix = item.prefix(which);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kKeys * kDim / 4; i += kPlainThreads) {
      const std::int32_t row = i / (kDim / 4);
      const int column = 4 * (i % (kDim / 4));
      const std::int32_t key = begin + row;
      float4 value = {};
      if (key < item.max_end && column < p_.a.head_dim) {
        const RowPointer from =
            key < item.unit.prefix_len ? prefix + key * prefix_stride : fresh + key * stride;
        value = load4(reinterpret_cast<const float*>(from) + column, p_.keys_aligned);
      }
      *reinterpret_cast<float4*>(keys_ + row * kPitch + column) = value;
    }
  }

  // Rows row_ + 16 i against keys lane_ + 8 j.
  __device__ __forceinline__ void score(float (&scores)[4][4]) const {
#pragma unroll 4
    for (int d = 0; d < kDim; d += 4) {
      float4 q[4];
      float4 k[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        q[i] = *reinterpret_cast<const float4*>(queries_ + (row_ + 16 * i) * kPitch + d);
        k[i] = *reinterpret_cast<const float4*>(keys_ + (lane_ + 8 * i) * kPitch + d);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          scores[i][j] = fmaf(q[i].x, k[j].x, scores[i][j]);
          scores[i][j] = fmaf(q[i].y, k[j].y, scores[i][j]);
          scores[i][j] = fmaf(q[i].z, k[j].z, scores[i][j]);
          scores[i][j] = fmaf(q[i].w, k[j].w, scores[i][j]);
        }
      }
    }
  }

  // Scores into weights in shared memory; what came before is rescaled. The eight lanes of a row
  // are neighbours in a warp.
  __device__ __forceinline__ void weigh(float (&scores)[4][4], std::int32_t key,
                                        float (&out)[4][kColumns], float (&top)[4],
                                        float (&sum)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = row_ + 16 * i;
      const std::int32_t end = ends_[row];
      float most = top[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (key + lane_ + 8 * j >= end) scores[i][j] = -INFINITY;
        most = fmaxf(most, scores[i][j]);
      }
#pragma unroll
      for (int step = 1; step < 8; step *= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, step));
      }
      const float reference = most == -INFINITY ? 0.0F : most;
      const float factor = top[i] == -INFINITY ? 0.0F : exp2f((top[i] - reference) * p_.scale_log2);
      top[i] = most;
      sum[i] *= factor;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float weight = exp2f((scores[i][j] - reference) * p_.scale_log2);
        sum[i] += weight;
        weights_[row * kWeightPitch + lane_ + 8 * j] = weight;
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) out[i][c] *= factor;
    }
  }

  // Columns 4 lane_ + 32 c of rows row_ + 16 i.
  template <bool kMasked>
  __device__ __forceinline__ void accumulate(float (&out)[4][kColumns], std::int32_t first) const {
#pragma unroll 1
    for (int key = 0; key < kKeys; key += 4) {
      float4 weight[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weight[i] =
            *reinterpret_cast<const float4*>(weights_ + (row_ + 16 * i) * kWeightPitch + key);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int c = 0; c < kColumns / 4; ++c) {
          const float4 v =
              *reinterpret_cast<const float4*>(keys_ + (key + k) * kPitch + 4 * lane_ + 32 * c);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (kMasked && first + key + k >= ends_[row_ + 16 * i]) continue;
            const float w = k == 0   ? weight[i].x
                            : k == 1 ? weight[i].y
                            : k == 2 ? weight[i].z
                                     : weight[i].w;
            out[i][4 * c] = fmaf(w, v.x, out[i][4 * c]);
            out[i][4 * c + 1] = fmaf(w, v.y, out[i][4 * c + 1]);
            out[i][4 * c + 2] = fmaf(w, v.z, out[i][4 * c + 2]);
            out[i][4 * c + 3] = fmaf(w, v.w, out[i][4 * c + 3]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void store(const Item& item, const float (&out)[4][kColumns],
                                        const float (&top)[4], const float (&sum)[4]) const {
    const std::int64_t token0 = std::int64_t{item.unit.q_begin} + item.unit.row_begin;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int32_t row = row_ + 16 * i;
      float total = sum[i];
#pragma unroll
      for (int step = 1; step < 8; step *= 2) total += __shfl_xor_sync(0xffffffffU, total, step);
      if (row >= item.rows) continue;
      const std::int32_t token = token_of(p_, row);
      const std::int64_t head = item.first_head + (row - token * p_.a.heads);
      if (p_.a.lse.data != nullptr && lane_ == 0) {
        p_.a.lse.data[(token0 + token) * p_.a.lse.token_stride + head * p_.a.lse.head_stride] =
            total == 0.0F ? -INFINITY : fmaf(top[i], p_.scale, logf(total));
      }
      const float factor = total == 0.0F ? 0.0F : 1.0F / total;
      float* to = static_cast<float*>(p_.a.out.data) + (token0 + token) * p_.a.out.token_stride +
                  head * p_.a.out.head_stride;
#pragma unroll
      for (int c = 0; c < kColumns / 4; ++c) {
        const int column = 4 * lane_ + 32 * c;
        if (column >= p_.a.head_dim) continue;
        const float4 value = {out[i][4 * c] * factor, out[i][4 * c + 1] * factor,
                              out[i][4 * c + 2] * factor, out[i][4 * c + 3] * factor};
        if (p_.out_aligned) {
          *reinterpret_cast<float4*>(to + column) = value;
        } else {
          to[column] = value.x;
          to[column + 1] = value.y;
          to[column + 2] = value.z;
          to[column + 3] = value.w;
        }
      }
    }
  }

  const KernelArgs& p_;
  float* queries_;
  float* keys_;  // then values
  float* weights_;
  std::int32_t* ends_;
  int lane_;
  int row_;
};

template <int kDim>
__global__ void __launch_bounds__(kPlainThreads)
    plain_kernel(const __grid_constant__ KernelArgs p) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ ScheduleMemory schedule_memory;
  const Plain<kDim> plain(p, reinterpret_cast<float*>(memory));
  Schedule<4> schedule(p, schedule_memory);
  launch_dependents();
  for (schedule.start(); schedule.more(); schedule.advance()) {
    schedule.fetch();
    if (schedule.item().rows > 0) plain.item(schedule.item());
    schedule.prefetch();
  }
  schedule.finish();
  wait_for_prerequisites();
}

}  // namespace ragged::sm80
