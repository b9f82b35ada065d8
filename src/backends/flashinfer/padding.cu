// Copies between tensors of any strides and dense ones with wider heads, eight elements a thread.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "backends/flashinfer/padding.hpp"

namespace ragged::fi {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  // elements of 2 bytes; head dims are multiples of it
using Element = std::uint16_t;

struct alignas(16) Vector {
  Element values[kVector];
};

// Rows of a tensor may begin anywhere.
__device__ __forceinline__ bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Vector) == 0;
}

__device__ __forceinline__ Vector load(const Element* from) {
  if (is_aligned(from)) return *reinterpret_cast<const Vector*>(from);
  Vector vector;
  for (int i = 0; i < kVector; ++i) vector.values[i] = from[i];
  return vector;
}

__device__ __forceinline__ void store(Element* to, const Vector& vector) {
  if (is_aligned(to)) {
    *reinterpret_cast<Vector*>(to) = vector;
    return;
  }
  for (int i = 0; i < kVector; ++i) to[i] = vector.values[i];
}

__device__ __forceinline__ std::int64_t at(const device::TensorArg& tensor, std::int64_t row,
                                           int head, int column) {
  return row * tensor.token_stride + head * tensor.head_stride + column;
}

struct Three {
  PadArgs tensors[3];
};

__global__ void __launch_bounds__(kThreads) pad_rows(Three three, int head_dim, int dim) {
  const PadArgs& t = three.tensors[blockIdx.y];
  const int vectors = dim / kVector;  // of a head
  const std::int64_t all = t.rows * t.heads * vectors;
  const auto* const from = static_cast<const Element*>(t.from.data);
  auto* const to = static_cast<Vector*>(t.to);
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * kThreads) {
    const std::int64_t row_head = i / vectors;
    const int column = static_cast<int>(i - row_head * vectors) * kVector;
    const std::int64_t row = row_head / t.heads;
    const int head = static_cast<int>(row_head - row * t.heads);
    to[i] = column < head_dim ? load(from + at(t.from, row, head, column)) : Vector{};
  }
}

__global__ void __launch_bounds__(kThreads)
    unpad_units(const Vector* from, device::TensorArg to, int heads, int head_dim, int dim,
                const device::TableHeader* header, const device::Unit* units) {
  std::int64_t num_units = 0;
  for (const std::int32_t of_rule : header->num_units) num_units += of_rule;
  const int vectors = head_dim / kVector;
  const int padded_vectors = dim / kVector;
  auto* const out = static_cast<Element*>(to.data);
  for (std::int64_t e = blockIdx.x; e < num_units; e += gridDim.x) {
    const std::int64_t first = std::int64_t{units[e].q_begin} + units[e].row_begin;
    const int all = units[e].rows * heads * vectors;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += kThreads) {
      const int row_head = i / vectors;
      const int vector = i - row_head * vectors;
      const std::int64_t row = first + row_head / heads;
      const int head = row_head % heads;
      store(out + at(to, row, head, vector * kVector),
            from[(row * heads + head) * padded_vectors + vector]);
    }
  }
}

constexpr std::int64_t kMostBlocks = 4096;

unsigned blocks_for(std::int64_t work) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(work, 1, kMostBlocks));
}

}  // namespace

int prepare_padding() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, pad_rows);
  return status != cudaSuccess ? status : cudaFuncGetAttributes(&attributes, unpad_units);
}

int pad(const PadArgs (&tensors)[3], int head_dim, int dim, void* stream) {
  Three three;
  std::int64_t most = 0;
  for (int i = 0; i < 3; ++i) {
    three.tensors[i] = tensors[i];
    most = std::max(most, tensors[i].rows * tensors[i].heads * (dim / kVector));
  }
  pad_rows<<<dim3(blocks_for((most + kThreads - 1) / kThreads), 3), kThreads, 0,
             static_cast<cudaStream_t>(stream)>>>(three, head_dim, dim);
  return cudaGetLastError();
}

int unpad(const void* from, const device::TensorArg& to, int heads, int head_dim, int dim,
          const device::TableHeader* header, const device::Unit* units, std::int64_t max_units,
          void* stream) {
  unpad_units<<<blocks_for(max_units), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Vector*>(from), to, heads, head_dim, dim, header, units);
  return cudaGetLastError();
}

}  // namespace ragged::fi
