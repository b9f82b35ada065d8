// The prologue's kernels and their launches: one launch makes a step's table, with one block for
// each thousand segments. Offsets of the host travel in its parameters, or in those of launches
// before it.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <type_traits>

#include "device/prologue.cuh"
#include "device/prologue.hpp"

namespace ragged::device {
namespace {

// Compiled once for all kernels that call it. Every thread looks at the tiles several times for
// each unit: from shared memory, because parameters behind a pointer are read one at a time by the
// whole device.
__device__ __noinline__ void make(const StepArgs& parameters) {
  __shared__ Memory memory;
  __shared__ StepArgs args;
  static_assert(std::is_trivially_copyable_v<StepArgs> && sizeof(StepArgs) % 8 == 0);
  const auto* const from = reinterpret_cast<const std::uint64_t*>(&parameters);
  auto* const to = reinterpret_cast<std::uint64_t*>(&args);
  for (unsigned i = threadIdx.x; i < sizeof(StepArgs) / 8; i += kThreads) to[i] = from[i];
  __syncthreads();
  Prologue(args, memory).make();
}

// The arguments, with the offsets behind them.
template <int kWords>
struct alignas(16) Parcel {
  StepArgs args;
  std::int32_t* to = nullptr;
  std::int64_t count = 0;
  alignas(16) std::int32_t words[kWords];
};

template <int kWords>
__device__ __forceinline__ void unpack(const Parcel<kWords>& parcel) {
  const auto* const from = reinterpret_cast<const int4*>(parcel.words);
  auto* const to = reinterpret_cast<int4*>(parcel.to);
  const int step = static_cast<int>(gridDim.x) * kThreads;
  for (int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x); 4 * i < parcel.count;
       i += step) {
    to[i] = from[i];
  }
}

template <int kWords>
__global__ void __launch_bounds__(kThreads)
    unpack_and_make(const __grid_constant__ Parcel<kWords> p) {
  unpack(p);
  meet();
  make(p.args);
}

template <int kWords>
__global__ void __launch_bounds__(kThreads) unpack_only(const __grid_constant__ Parcel<kWords> p) {
  unpack(p);
}

__global__ void __launch_bounds__(kThreads) make_only(const __grid_constant__ StepArgs args) {
  make(args);
}

// Blocks that wait for one another are launched together or not at all.
int launch(const void* kernel, int blocks, void* parameters, cudaStream_t stream) {
  void* list[] = {parameters};
  if (blocks == 1) return cudaLaunchKernel(kernel, dim3(1), dim3(kThreads), list, 0, stream);
  return cudaLaunchCooperativeKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
                                     list, 0, stream);
}

template <int kWords>
int launch_parcel(void (*kernel)(Parcel<kWords>), const StepArgs& args, const Words& words,
                  int blocks, cudaStream_t stream) {
  Parcel<kWords> parcel;
  parcel.args = args;
  parcel.to = words.to;
  parcel.count = words.count;
  std::copy_n(words.data, words.count, parcel.words);
  return launch(reinterpret_cast<const void*>(kernel), blocks, &parcel, stream);
}

// Parameters of 4 KB fit every driver; CUDA 12.1 took the limit to 32,764 bytes.
constexpr int kSmallWords = 704;
constexpr int kMiddleWords = 2560;
constexpr int kLargeWords = static_cast<int>(kMostInlineWords);
static_assert(sizeof(Parcel<kSmallWords>) <= 4096);
static_assert(sizeof(Parcel<kLargeWords>) <= 32764);

bool large_parameters() {
  static const bool taken = [] {
    int driver = 0;
    return cudaDriverGetVersion(&driver) == cudaSuccess && driver >= 12010;
  }();
  return taken;
}

// One launch that carries the words and makes the table.
int launch_with_words(const StepArgs& args, const Words& words, int blocks, cudaStream_t stream) {
  if (words.count <= kSmallWords) {
    return launch_parcel(unpack_and_make<kSmallWords>, args, words, blocks, stream);
  }
  if (words.count <= kMiddleWords) {
    return launch_parcel(unpack_and_make<kMiddleWords>, args, words, blocks, stream);
  }
  return launch_parcel(unpack_and_make<kLargeWords>, args, words, blocks, stream);
}

int send_words(const Words& words, cudaStream_t stream) {
  const std::int64_t most = large_parameters() ? kLargeWords : kSmallWords;
  for (std::int64_t sent = 0; sent < words.count; sent += most) {
    const Words piece = {words.data + sent, words.to + sent, std::min(most, words.count - sent)};
    const int status = large_parameters()
                           ? launch_parcel(unpack_only<kLargeWords>, StepArgs{}, piece, 1, stream)
                           : launch_parcel(unpack_only<kSmallWords>, StepArgs{}, piece, 1, stream);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

// A block for each 1024 segments, as long as all of them run at once beside other work.
int blocks_for(std::int64_t segments, int sm_count) {
  const std::int64_t most = std::max(sm_count / 2, 1);
  return static_cast<int>(std::clamp<std::int64_t>((segments + kTile - 1) / kTile, 1, most));
}

}  // namespace

int prepare_prologue() {
  const void* const kernels[] = {reinterpret_cast<const void*>(unpack_and_make<kSmallWords>),
                                 reinterpret_cast<const void*>(unpack_and_make<kMiddleWords>),
                                 reinterpret_cast<const void*>(unpack_and_make<kLargeWords>),
                                 reinterpret_cast<const void*>(unpack_only<kSmallWords>),
                                 reinterpret_cast<const void*>(unpack_only<kLargeWords>),
                                 reinterpret_cast<const void*>(make_only)};
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes{};
    const cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

int launch_prologue(const StepArgs& args, const Words& words, std::int64_t max_segments,
                    int sm_count, void* stream) {
  auto* const to = static_cast<cudaStream_t>(stream);
  const int blocks = blocks_for(std::max<std::int64_t>(max_segments, args.num_segments), sm_count);
  const std::int64_t most_inline = large_parameters() ? kLargeWords : kSmallWords;
  if (words.count > 0 && words.count <= most_inline) {
    return launch_with_words(args, words, blocks, to);
  }
  const int status = send_words(words, to);
  if (status != cudaSuccess) return status;
  StepArgs copy = args;
  return launch(reinterpret_cast<const void*>(make_only), blocks, &copy, to);
}

}  // namespace ragged::device
