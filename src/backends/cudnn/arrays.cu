#include <cuda_runtime_api.h>

#include "backends/cudnn/arrays.hpp"

namespace ragged::cudnn {
namespace {

constexpr int kThreads = 256;

__device__ bool inside(std::int64_t begin, std::int64_t length, std::int64_t rows) {
  return begin >= 0 && length >= 0 && begin + length <= rows;
}

// Offsets made on the device are not checked on the host.
__device__ bool fits(const device::AttentionArgs& a, const device::Unit& u) {
  return inside(u.q_begin, u.q_len, a.q.tokens) && inside(u.q_begin, u.q_len, a.out.tokens) &&
         inside(u.kv_begin, u.kv_len, a.k.tokens) && inside(u.kv_begin, u.kv_len, a.v.tokens);
}

// Rows [begin, begin + rows) of out become 0, those of the LSE -inf; by all threads of the block.
__device__ void answer_nothing(const device::AttentionArgs& a, std::int64_t begin,
                               std::int64_t rows) {
  const int words = a.head_dim / 8;  // of 16 bytes
  const std::int64_t heads = rows * a.num_qo_heads;
  for (std::int64_t i = threadIdx.x; i < heads * words; i += kThreads) {
    const std::int64_t head = i / words;
    const std::int64_t row = begin + head / a.num_qo_heads;
    const std::int64_t at =
        row * a.out.token_stride + head % a.num_qo_heads * a.out.head_stride + i % words * 8;
    *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(a.out.data) + at) = uint4{};
  }
  if (a.lse.data == nullptr) return;
  for (std::int64_t i = threadIdx.x; i < heads; i += kThreads) {
    const std::int64_t row = begin + i / a.num_qo_heads;
    a.lse.data[row * a.lse.token_stride + i % a.num_qo_heads * a.lse.head_stride] =
        __int_as_float(static_cast<int>(0xff800000U));
  }
}

// A thread for each entry of the offsets.
__global__ void __launch_bounds__(kThreads)
    fill_arrays(const Arrays arrays, const device::AttentionArgs args) {
  __shared__ std::int64_t hidden_begin[kThreads];
  __shared__ std::int32_t hidden_rows[kThreads];
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  std::int64_t q_begin = 0;
  std::int64_t kv_begin = 0;
  std::int32_t q_len = 0;
  std::int32_t kv_len = 0;
  std::int32_t hidden = 0;
  if (i < args.table->num_units[0]) {
    const device::Unit unit = args.units[i];
    if (fits(args, unit)) {
      hidden = static_cast<std::int32_t>(hidden_rows_of(args.mask, unit.q_len, unit.kv_len));
      hidden_begin[threadIdx.x] = unit.q_begin;
      q_begin = std::int64_t{unit.q_begin} + hidden;
      q_len = unit.q_len - hidden;
      kv_begin = unit.kv_begin;
      kv_len = q_len > 0 ? unit.kv_len : 0;
    }
  }
  hidden_rows[threadIdx.x] = hidden;
  if (i <= arrays.segments) {
    arrays.q_offsets[i] = q_begin * args.q.token_stride;
    arrays.k_offsets[i] = kv_begin * args.k.token_stride;
    arrays.v_offsets[i] = kv_begin * args.v.token_stride;
    arrays.out_offsets[i] = q_begin * args.out.token_stride;
    arrays.lse_offsets[i] = q_begin * args.lse.token_stride;
  }
  if (i < arrays.segments) {
    arrays.q_lengths[i] = q_len;
    arrays.kv_lengths[i] = kv_len;
  }
  if (!__syncthreads_or(hidden > 0)) return;
  for (int n = 0; n < kThreads; ++n) {
    if (hidden_rows[n] > 0) answer_nothing(args, hidden_begin[n], hidden_rows[n]);
  }
}

}  // namespace

int prepare_arrays() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, fill_arrays);
}

int launch_arrays(const Arrays& arrays, const device::AttentionArgs& args, void* stream) {
  const auto blocks = static_cast<unsigned>(arrays.segments / kThreads + 1);
  fill_arrays<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(arrays, args);
  return cudaGetLastError();
}

}  // namespace ragged::cudnn
