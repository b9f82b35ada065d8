// Finds the kernel of a group of rules and launches it over a device table.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/sm80/args.cuh"
#include "backends/sm80/built.hpp"
#include "backends/sm80/kernel_set.hpp"
#include "backends/sm80/kernels.hpp"

namespace ragged::sm80 {
namespace {

constexpr int kMaxDevices = 64;

// A kernel, and what each device said about it: resident blocks of an SM, 0 before it was asked.
struct Entry {
  Kernel kernel;
  std::array<std::atomic<int>, kMaxDevices> blocks = {};

  // Raises the shared memory that the kernel may have on the current device, once, and asks how
  // many blocks fit.
  cudaError_t ready(int& fitting) {
    int device = 0;
    if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
    if (device >= kMaxDevices) return cudaErrorInvalidDevice;
    std::atomic<int>& known = blocks[static_cast<std::size_t>(device)];
    fitting = known.load(std::memory_order_acquire);
    if (fitting > 0) return cudaSuccess;
    cudaError_t e = cudaFuncSetAttribute(
        kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.smem_bytes);
    if (e == cudaSuccess) {
      e = cudaFuncSetAttribute(kernel.function, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared);
    }
    if (e == cudaSuccess) {
      e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
          &fitting, kernel.function, kernel.threads, static_cast<std::size_t>(kernel.smem_bytes));
    }
    if (e != cudaSuccess) return e;
    if (fitting == 0) return cudaErrorInvalidConfiguration;
    known.store(fitting, std::memory_order_release);
    return cudaSuccess;
  }
};

struct Family {
  DType dtype;
  int dim;
  std::array<Entry, kNumVariants> entries;
};

// Every kernel of the build, made at the first use.
Entry* find(DType dtype, int head_dim, std::int32_t variant) {
  struct All {
    std::array<Family, kNumInstances> families;
    All() {
      for (std::size_t i = 0; i < families.size(); ++i) {
        families[i].dtype = kInstances[i].dtype;
        families[i].dim = kInstances[i].dim;
        const KernelSet set = kInstances[i].kernels();
        for (std::size_t v = 0; v < kNumVariants; ++v) {
          families[i].entries[v].kernel = set.kernels[v];
        }
      }
    }
  };
  static All all;
  if (variant < 0 || variant >= kNumVariants) return nullptr;
  const int dim = built_dim(dtype, head_dim);
  for (Family& family : all.families) {
    if (family.dtype != dtype || family.dim != dim) continue;
    Entry& entry = family.entries[static_cast<std::size_t>(variant)];
    return entry.kernel.function == nullptr ? nullptr : &entry;
  }
  return nullptr;
}

// Whether every row of a tensor begins at a multiple of 16 bytes.
bool aligned(const device::TensorArg& tensor, std::int64_t element_bytes) {
  const auto whole = [&](std::int64_t stride) { return stride * element_bytes % 16 == 0; };
  return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && whole(tensor.token_stride) &&
         whole(tensor.head_stride);
}

KernelArgs arguments(const RuleGroup& rules, const TileTable& table, DType dtype,
                     const device::AttentionArgs& args, const Workspace& workspace) {
  KernelArgs p;
  p.a = args;
  p.first_rule = rules.first;
  p.last_rule = rules.last;
  for (int rule = rules.first; rule <= rules.last; ++rule) {
    p.split_keys[rule] = table.rules[rule].tile.split_keys;
  }
  p.group = args.num_qo_heads / args.num_kv_heads;
  p.heads_inverse = static_cast<std::uint32_t>(
      (std::uint64_t{1} << 32U) / static_cast<std::uint32_t>(args.heads) + 1);
  // A scale that fp32 holds only as a denormal number is taken for zero.
  if (std::abs(args.scale_log2) >= std::numeric_limits<float>::min()) {
    p.scale = std::abs(args.sm_scale);
    p.scale_log2 = std::abs(args.scale_log2);
    p.query_factor = args.sm_scale < 0.0F ? -1.0F : 1.0F;
  } else {
    p.scale = 1.0F;
    p.scale_log2 = 1.442695041F;
    p.query_factor = 0.0F;
  }
  const std::int64_t bytes = dtype == DType::fp32 ? 4 : 2;
  p.q_aligned = aligned(args.q, bytes);
  p.keys_aligned = aligned(args.k, bytes) && aligned(args.v, bytes) &&
                   aligned(args.prefix_k, bytes) && aligned(args.prefix_v, bytes);
  p.out_aligned = aligned(args.out, bytes);
  if (args.workspace != nullptr) {
    auto* base = static_cast<char*>(args.workspace);
    p.counters = reinterpret_cast<std::uint32_t*>(base);
    p.partials = reinterpret_cast<float*>(base + workspace.partials_at);
    p.slot_floats = static_cast<std::int64_t>(workspace.slot_bytes / sizeof(float));
    p.turn_slot = workspace.slots;
  }
  return p;
}

}  // namespace

int prepare(const RuleGroup& rules, const TileTable& table, DType dtype, int head_dim) {
  Entry* entry = find(dtype, head_dim, table.rules[rules.first].tile.variant);
  int fitting = 0;
  return entry == nullptr ? cudaErrorInvalidDeviceFunction : entry->ready(fitting);
}

int launch(const RuleGroup& rules, const TileTable& table, DType dtype,
           const device::AttentionArgs& args, const LaunchShape& shape) {
  Entry* entry = find(dtype, args.head_dim, table.rules[rules.first].tile.variant);
  if (entry == nullptr) return cudaErrorInvalidDeviceFunction;
  int fitting = 0;
  if (const cudaError_t e = entry->ready(fitting); e != cudaSuccess) return e;
  std::int64_t blocks = std::int64_t{fitting} * shape.sm_count;
  // Blocks that may take pieces in turn have a slot each.
  if (rules.splits_keys) blocks = std::min(blocks, shape.workspace.turn_slots);
  blocks = std::min(blocks, shape.max_units * args.head_groups);
  if (blocks <= 0) return cudaSuccess;
  KernelArgs p = arguments(rules, table, dtype, args, shape.workspace);
  void* parameters[] = {&p};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(entry->kernel.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(entry->kernel.smem_bytes);
  config.stream = static_cast<cudaStream_t>(shape.stream);
  cudaLaunchAttribute beside = {};
  beside.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  beside.val.programmaticStreamSerializationAllowed = 1;
  if (shape.beside_previous) {
    config.attrs = &beside;
    config.numAttrs = 1;
  }
  return cudaLaunchKernelExC(&config, entry->kernel.function, parameters);
}

}  // namespace ragged::sm80
