// Inputs, and attention of single rows in double precision: one block for each row and head.

#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/gpu.hpp"
#include "bench/gpu_check.hpp"

namespace ragged::bench {
namespace {

constexpr int kThreads = 256;

__device__ float load(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::fp32) return static_cast<const float*>(data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  if (dtype == DType::fp16) return __half2float(__ushort_as_half(bits));
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

__device__ void store(void* data, DType dtype, std::int64_t i, float value) {
  if (dtype == DType::fp32) {
    static_cast<float*>(data)[i] = value;
  } else if (dtype == DType::fp16) {
    static_cast<std::uint16_t*>(data)[i] = __half_as_ushort(__float2half_rn(value));
  } else {
    const std::uint32_t bits = __float_as_uint(value);
    static_cast<std::uint16_t*>(data)[i] =
        static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}

// A step of the splitmix64 generator, as a function of its counter.
__device__ std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Box and Muller's transform: one pair of values for each pair of elements.
__global__ void normal_kernel(void* data, DType dtype, std::int64_t count, std::uint64_t seed) {
  const std::int64_t step = 2 * static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = 2 * (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
       i < count; i += step) {
    const std::uint64_t random = mix(mix(seed) + static_cast<std::uint64_t>(i));
    const float u = (static_cast<float>(random >> 40) + 1.0f) * 0x1p-24f;
    const float angle = static_cast<float>(random & 0xffffffu) * (6.2831853f * 0x1p-24f);
    const float radius = sqrtf(-2.0f * logf(u));
    store(data, dtype, i, radius * cosf(angle));
    if (i + 1 < count) store(data, dtype, i + 1, radius * sinf(angle));
  }
}

struct RowsArgs {
  AttentionShape shape;
  const void* q;
  KeySource prefix;
  KeySource fresh;
  const RowSpan* rows;
  double* scores;  // [rows, num_qo_heads, most_keys]
  double* out;     // [rows, num_qo_heads, head_dim]
  std::int64_t most_keys;
};

__device__ double reduce(double value, bool largest) {
  __shared__ double values[kThreads];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const double other = values[threadIdx.x + half];
      values[threadIdx.x] =
          largest ? fmax(values[threadIdx.x], other) : values[threadIdx.x] + other;
    }
    __syncthreads();
  }
  const double result = values[0];
  __syncthreads();
  return result;
}

__global__ void rows_kernel(RowsArgs a) {
  const RowSpan span = a.rows[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y);
  const int dims = a.shape.head_dim;
  const int kv_head = head / (a.shape.num_qo_heads / a.shape.num_kv_heads);
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * a.shape.num_qo_heads + head;
  double* scores = a.scores + at * a.most_keys;
  const std::int64_t first = span.prefix_end - span.prefix_begin;
  const std::int64_t keys = first + span.end - span.begin;
  const std::int64_t q = (span.row * a.shape.num_qo_heads + head) * dims;
  // Where key i's row of this head begins, in which source.
  const auto offset = [&](std::int64_t i) {
    const std::int64_t row = i < first ? span.prefix_begin + i : span.begin + i - first;
    return (row * a.shape.num_kv_heads + kv_head) * dims;
  };

  double most = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < keys; i += kThreads) {
    const void* k = i < first ? a.prefix.k : a.fresh.k;
    const std::int64_t from = offset(i);
    double score = 0;
    for (int d = 0; d < dims; ++d) {
      score += static_cast<double>(load(a.q, a.shape.dtype, q + d)) *
               static_cast<double>(load(k, a.shape.dtype, from + d));
    }
    score *= a.shape.sm_scale;
    scores[i] = score;
    most = fmax(most, score);
  }
  most = reduce(most, true);
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < keys; i += kThreads) {
    const double weight = exp(scores[i] - most);
    scores[i] = weight;
    sum += weight;
  }
  sum = reduce(sum, false);
  for (int d = threadIdx.x; d < dims; d += kThreads) {
    double value = 0;
    for (std::int64_t i = 0; i < keys; ++i) {
      const void* v = i < first ? a.prefix.v : a.fresh.v;
      value += scores[i] * static_cast<double>(load(v, a.shape.dtype, offset(i) + d));
    }
    a.out[at * dims + d] = keys > 0 ? value / sum : 0.0;
  }
}

}  // namespace

void fill_normal(void* data, DType dtype, std::int64_t count, std::uint64_t seed) {
  if (count == 0) return;
  normal_kernel<<<2048, kThreads>>>(data, dtype, count, seed);
  check(cudaGetLastError(), "filling with normal values");
  check(cudaDeviceSynchronize(), "filling with normal values");
}

std::vector<double> attention_rows(const AttentionShape& shape, const void* q,
                                   const KeySource& prefix, const KeySource& fresh,
                                   const std::vector<RowSpan>& rows) {
  if (rows.empty()) return {};
  RowsArgs args = {shape, q, prefix, fresh, nullptr, nullptr, nullptr, 1};
  for (const RowSpan& row : rows) {
    args.most_keys =
        std::max(args.most_keys, row.prefix_end - row.prefix_begin + row.end - row.begin);
  }
  const std::size_t pairs = rows.size() * static_cast<std::size_t>(shape.num_qo_heads);
  std::vector<double> out(pairs * static_cast<std::size_t>(shape.head_dim));
  const GpuBuffer spans(rows.size() * sizeof(RowSpan));
  const GpuBuffer scores(pairs * static_cast<std::size_t>(args.most_keys) * sizeof(double));
  const GpuBuffer results(out.size() * sizeof(double));
  check(
      cudaMemcpy(spans.data(), rows.data(), rows.size() * sizeof(RowSpan), cudaMemcpyHostToDevice),
      "the rows to compute");
  args.rows = static_cast<const RowSpan*>(spans.data());
  args.scores = static_cast<double*>(scores.data());
  args.out = static_cast<double*>(results.data());
  const dim3 grid(static_cast<unsigned>(rows.size()), static_cast<unsigned>(shape.num_qo_heads));
  rows_kernel<<<grid, kThreads>>>(args);
  check(cudaGetLastError(), "attention in double precision");
  check(cudaMemcpy(out.data(), results.data(), out.size() * sizeof(double), cudaMemcpyDeviceToHost),
        "attention in double precision");
  return out;
}

std::vector<float> read_row(const void* data, DType dtype, std::int64_t row, std::int64_t width) {
  const std::size_t element = dtype == DType::fp32 ? 4 : 2;
  std::vector<unsigned char> bytes(static_cast<std::size_t>(width) * element);
  check(cudaMemcpy(
            bytes.data(),
            static_cast<const unsigned char*>(data) + static_cast<std::size_t>(row) * bytes.size(),
            bytes.size(), cudaMemcpyDeviceToHost),
        "reading a row");
  std::vector<float> values(static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::fp32) {
      memcpy(&values[i], bytes.data() + 4 * i, 4);
      continue;
    }
    std::uint16_t bits = 0;
    memcpy(&bits, bytes.data() + 2 * i, 2);
    if (dtype == DType::fp16) {
      values[i] = __half2float(__half(__half_raw{bits}));
    } else {
      const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
      memcpy(&values[i], &wide, 4);
    }
  }
  return values;
}

}  // namespace ragged::bench
