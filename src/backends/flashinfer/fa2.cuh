#pragma once

// FlashInfer's FlashAttention-2 kernel for ragged keys, over the units of our step table.
//
// FlashInfer is told that every unit is a request of its own, with one query tile and the keys that
// the unit's last row sees. Bottom-right alignment then gives the unit's rows the mask of their
// segment, and no tile of keys beyond it is loaded.

// flashinfer/mma.cuh includes not all that it uses.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include <flashinfer/mma.cuh>

namespace flashinfer::mma {

// Adds the weights of a tile of 16 rows and 16 keys, of which a lane holds two rows' alike, to the
// rows' sums. FlashInfer's own adds weights that were rounded to the type of v: an LSE of them is
// off by up to 2^-9.
__device__ __forceinline__ void ragged_add_weights(float* sums, const float* weights) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float* const w = weights + 2 * row;
    float sum = (w[0] + w[1]) + (w[4] + w[5]);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sums[row] += sum;
  }
}

}  // namespace flashinfer::mma

// In the place of its one call, where s_frag are the weights before they are rounded.
#define m16k16_rowsum_f16f16f32(sums, rounded) ragged_add_weights(sums, s_frag[mma_q][mma_kv])
#include <flashinfer/attention/prefill.cuh>
#undef m16k16_rowsum_f16f16f32

#include "backends/flashinfer/kernel_set.hpp"
#include "backends/flashinfer/shapes.hpp"
#include "visible.hpp"

namespace ragged::fi {

// What the kernel is launched with: FlashInfer's names for what it reads, then ours.
template <class T>
struct Fa2Params {
  using DTypeQ = T;
  using DTypeKV = T;
  using DTypeO = T;
  using IdType = std::int64_t;  // times a stride: rows beyond 2^31 elements

  T* q;
  T* k;
  T* v;
  T* o;
  float* lse;  // FlashInfer's own, base 2: never asked for
  IdType* request_indices;
  IdType* qo_tile_indices;
  IdType* kv_tile_indices;
  IdType* q_indptr;
  IdType* kv_indptr;
  IdType* o_indptr;
  IdType* kv_chunk_size_ptr;
  bool* block_valid_mask;
  bool partition_kv;
  ::flashinfer::uint_fastdiv group_size;
  std::uint32_t q_stride_n;
  std::uint32_t q_stride_h;
  std::uint32_t k_stride_n;
  std::uint32_t k_stride_h;
  std::uint32_t v_stride_n;
  std::uint32_t v_stride_h;

  const device::Unit* units;
  device::LseArg natural_lse;
  float scale_log2;
  bool causal;
};

// How FlashInfer's kernel is made to answer what this library promises.
struct Fa2Variant : ::flashinfer::AttentionVariantBase {
  static constexpr bool use_softmax = true;
  // Scores are scaled as they come (LogitsTransform): the product is then rounded once, and the
  // largest score of a row less itself is exactly 0, however large; and sm_scale may be negative.
  static constexpr float sm_scale_log2 = 1.0F;

  std::uint32_t qo_len;
  std::uint32_t kv_len;
  std::uint32_t window_left;

  template <class Params>
  __device__ Fa2Variant(const Params& params, std::uint32_t unit_index, std::uint8_t*) {
    const device::Unit unit = params.units[unit_index];
    const Mask mask = {params.causal, 0};
    qo_len = static_cast<std::uint32_t>(unit.rows);
    kv_len = static_cast<std::uint32_t>(visible_end_of<std::int32_t>(
        mask, unit.row_begin + unit.rows - 1, unit.q_len, unit.kv_len));
    // The whole of the keys. Where rows see nothing (more rows than keys), FlashInfer's count of
    // tiles that need no mask wraps around below zero; a window of 0 has every tile masked, and
    // starts at key 0 all the same.
    window_left = kv_len < qo_len ? 0 : kv_len;
  }

  template <class Params, class T>
  __device__ __forceinline__ T LogitsTransform(const Params& params, T logits, std::uint32_t,
                                               std::uint32_t, std::uint32_t, std::uint32_t,
                                               std::uint32_t) {
    return logits * params.scale_log2;
  }

  // Called for every element of a row: the four lanes that share it all know its maximum and sum.
  template <class Params, class T, class Max>
  __device__ __forceinline__ T OutputTransform(const Params& params, T output,
                                               std::uint32_t unit_index, std::uint32_t row,
                                               std::uint32_t head, Max& max, float& sum, float) {
    constexpr float kLn2 = 0.693147180559945F;
    const device::LseArg& lse = params.natural_lse;
    if (lse.data != nullptr && threadIdx.x % 4 == 0 && row < qo_len) {
      const std::int64_t token = params.q_indptr[unit_index] + row;
      lse.data[token * lse.token_stride + head * lse.head_stride] =
          kLn2 * (max + ::flashinfer::math::ptx_log2(sum));
    }
    // A row that sees no key has a sum of 0; one with NaN in it keeps it.
    return sum == 0.0F ? 0.0F : output * ::flashinfer::math::ptx_rcp(sum);
  }
};

template <class T, int kDim, int kTileRows, bool kCausal>
struct Fa2 {
  // A head dim between compiles, and is silently wrong.
  static_assert(kDim % 64 == 0 && kDim <= 256);
  static_assert(kTileRows <= most_rows(kDim));

  static constexpr int kWarpsQ = warps_q(kTileRows);
  static constexpr int kWarpsKv = warps_kv(kTileRows);
  using Params = Fa2Params<T>;
  using Traits = ::flashinfer::KernelTraits<
      kCausal ? ::flashinfer::MaskMode::kCausal : ::flashinfer::MaskMode::kNone, kTileRows,
      kTileRows == 128 ? 2 : 1, key_tiles(kDim, kTileRows), kDim / 16, kDim / 16, kWarpsQ, kWarpsKv,
      ::flashinfer::PosEncodingMode::kNone, T, T, T, float, typename Params::IdType, Fa2Variant>;
  static_assert(!Traits::IsInvalid());
  static constexpr int kSmemBytes = sizeof(typename Traits::SharedStorage);
  static_assert(kSmemBytes <= 99 * 1024);

  static const void* function() {
    return reinterpret_cast<const void*>(
        &::flashinfer::BatchPrefillWithRaggedKVCacheKernel<Traits, Params>);
  }
  static cudaError_t prepare() {
    return cudaFuncSetAttribute(function(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                kSmemBytes);
  }
  static cudaError_t start(const Params& params, const Launch& l) {
    if (const cudaError_t e = prepare(); e != cudaSuccess) return e;
    Params copy = params;
    void* list[] = {&copy};
    return cudaLaunchKernel(
        function(),
        dim3(static_cast<unsigned>(l.num_units), 1, static_cast<unsigned>(l.num_kv_heads)),
        dim3(32, kWarpsQ, kWarpsKv), list, kSmemBytes, static_cast<cudaStream_t>(l.stream));
  }
};

template <class T>
Fa2Params<T> fa2_params(const Launch& l) {
  const auto stride = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const SchedulePointers& s = l.schedule;
  Fa2Params<T> p = {};
  p.q = static_cast<T*>(l.q.data);
  p.k = static_cast<T*>(l.k.data);
  p.v = static_cast<T*>(l.v.data);
  p.o = static_cast<T*>(l.out.data);
  p.request_indices = s.requests;
  p.qo_tile_indices = s.zeros;
  p.kv_tile_indices = s.zeros;
  p.q_indptr = s.q_rows;
  p.kv_indptr = s.kv_rows;
  p.o_indptr = s.q_rows;
  p.kv_chunk_size_ptr = s.chunk_keys;
  p.block_valid_mask = s.valid;
  p.group_size = ::flashinfer::uint_fastdiv(static_cast<std::uint32_t>(l.group));
  p.q_stride_n = stride(l.q.token_stride);
  p.q_stride_h = stride(l.q.head_stride);
  p.k_stride_n = stride(l.k.token_stride);
  p.k_stride_h = stride(l.k.head_stride);
  p.v_stride_n = stride(l.v.token_stride);
  p.v_stride_h = stride(l.v.head_stride);
  p.units = l.units;
  p.natural_lse = l.lse;
  p.scale_log2 = l.scale_log2;
  p.causal = l.causal;
  return p;
}

// Calls action(Fa2<...>{}) for the kernel of (tile_rows, causal).
template <class T, int kDim, class Action>
int with_fa2(int tile_rows, bool causal, const Action& action) {
  if (tile_rows == 16) {
    return causal ? action(Fa2<T, kDim, 16, true>{}) : action(Fa2<T, kDim, 16, false>{});
  }
  if (tile_rows == 64) {
    return causal ? action(Fa2<T, kDim, 64, true>{}) : action(Fa2<T, kDim, 64, false>{});
  }
  if constexpr (most_rows(kDim) >= 128) {
    if (tile_rows == 128) {
      return causal ? action(Fa2<T, kDim, 128, true>{}) : action(Fa2<T, kDim, 128, false>{});
    }
  }
  return cudaErrorInvalidDeviceFunction;
}

template <class T, int kDim>
KernelSet fa2_kernels() {
  KernelSet set;
  set.prepare = [](int tile_rows, bool causal) {
    return with_fa2<T, kDim>(tile_rows, causal,
                             [](auto kernel) { return static_cast<int>(kernel.prepare()); });
  };
  set.launch = [](const Launch& l) {
    const Fa2Params<T> params = fa2_params<T>(l);
    return with_fa2<T, kDim>(l.tile_rows, l.causal, [&](auto kernel) {
      return static_cast<int>(kernel.start(params, l));
    });
  };
  return set;
}

}  // namespace ragged::fi
