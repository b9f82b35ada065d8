#pragma once

// A case of the kernel check on the device: tensors between NaN, the table of units as a prologue
// makes it, and the launches.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/sm80/kernels.hpp"
#include "cut.hpp"

namespace {

using ragged::DType;
namespace device = ragged::device;
namespace sm80 = ragged::sm80;

#define CHECK_CUDA(call)                                                          \
  do {                                                                            \
    const cudaError_t error_ = static_cast<cudaError_t>(call);                    \
    if (error_ != cudaSuccess) {                                                  \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_)); \
      std::exit(2);                                                               \
    }                                                                             \
  } while (false)

struct Case {
  std::string name;
  ragged::Problem problem;
  std::vector<int> q, kv, prefix;  // lengths; kv: fresh keys
  int gap = 0;                     // elements between tokens' rows
  int offset = 0;                  // elements before the first: unaligned where not a multiple of 8
  float amplitude = 1.0F;          // of q
  std::int64_t slots = 1000;
  int poison_segment = -1;  // K and V of this segment are NaN; it is not compared
  int nan_q_row = -1;       // this row of segment 0 is NaN
  int nan_v_row = -1;       // this key of segment 0 has NaN values
};

std::uint16_t to_bits(DType dtype, float x) {
  if (dtype == DType::bf16) return __bfloat16_as_ushort(__float2bfloat16(x));
  return __half_as_ushort(__float2half(x));
}
float from_bits(DType dtype, std::uint16_t bits) {
  if (dtype == DType::bf16) return __bfloat162float(__ushort_as_bfloat16(bits));
  return __half2float(__ushort_as_half(bits));
}

// Rows of [tokens, heads, head_dim] on host and device.
struct Tensor {
  DType dtype;
  std::int64_t tokens, heads, dim, token_stride, offset, extra;
  std::vector<char> host;
  char* data = nullptr;

  Tensor(DType type, std::int64_t n, std::int64_t h, std::int64_t d, int gap, int at, int tail)
      : dtype(type),
        tokens(n + tail),
        heads(h),
        dim(d),
        token_stride(h * d + gap),
        offset(at),
        extra(tail) {
    host.resize(static_cast<std::size_t>((tokens * token_stride + offset + 64) * size()));
    // NaN everywhere: what is not set below must not matter.
    std::memset(host.data(), 0xff, host.size());
    CHECK_CUDA(cudaMalloc(&data, host.size()));
  }
  ~Tensor() { cudaFree(data); }
  Tensor(const Tensor&) = delete;
  [[nodiscard]] std::int64_t size() const { return dtype == DType::fp32 ? 4 : 2; }
  [[nodiscard]] std::int64_t index(std::int64_t t, std::int64_t h, std::int64_t d) const {
    return offset + t * token_stride + h * dim + d;
  }
  void set(std::int64_t t, std::int64_t h, std::int64_t d, float x) {
    char* to = host.data() + index(t, h, d) * size();
    if (dtype == DType::fp32) {
      std::memcpy(to, &x, 4);
    } else {
      const std::uint16_t bits = to_bits(dtype, x);
      std::memcpy(to, &bits, 2);
    }
  }
  [[nodiscard]] float get(std::int64_t t, std::int64_t h, std::int64_t d) const {
    const char* from = host.data() + index(t, h, d) * size();
    if (dtype == DType::fp32) {
      float x;
      std::memcpy(&x, from, 4);
      return x;
    }
    std::uint16_t bits;
    std::memcpy(&bits, from, 2);
    return from_bits(dtype, bits);
  }
  void fill(std::mt19937& random, float amplitude) {
    std::normal_distribution<float> normal;
    for (std::int64_t t = 0; t < tokens - extra; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t d = 0; d < dim; ++d) set(t, h, d, amplitude * normal(random));
      }
    }
  }
  void upload() { CHECK_CUDA(cudaMemcpy(data, host.data(), host.size(), cudaMemcpyHostToDevice)); }
  void download() {
    CHECK_CUDA(cudaMemcpy(host.data(), data, host.size(), cudaMemcpyDeviceToHost));
  }
  [[nodiscard]] device::TensorArg arg() const {
    return {data + offset * size(), token_stride, dim, static_cast<std::int32_t>(tokens)};
  }
};

struct Table {
  device::TableHeader header;
  std::vector<device::Unit> units;
};

// As a prologue does it: units of each rule together, by falling cost.
Table make_table(const Case& c, const ragged::TileTable& tiles, int head_groups,
                 const sm80::Workspace& workspace) {
  Table table;
  std::int64_t free_slot = 0;
  for (int rule = 0; rule < tiles.num_rules; ++rule) {
    const ragged::Tile& tile = tiles.rules[rule].tile;
    std::vector<std::pair<double, std::vector<device::Unit>>> found;
    std::int64_t q_begin = 0;
    std::int64_t kv_begin = 0;
    std::int64_t prefix_begin = 0;
    for (std::size_t s = 0; s < c.q.size(); ++s) {
      const std::int64_t q_len = c.q[s];
      const std::int64_t prefix = c.prefix.empty() ? 0 : c.prefix[s];
      const std::int64_t kv_len = c.kv[s] + prefix;
      if (q_len > 0 && ragged::tile_rule(tiles, q_len, kv_len) == rule) {
        const std::int64_t n = ragged::units_of(tile, q_len);
        const std::int64_t rows = ragged::rows_per_unit(tile, q_len, n);
        for (std::int64_t row = 0; row < q_len; row += rows) {
          device::Unit u;
          u.q_begin = static_cast<std::int32_t>(q_begin);
          u.q_len = static_cast<std::int32_t>(q_len);
          u.row_begin = static_cast<std::int32_t>(row);
          u.rows = static_cast<std::int32_t>(std::min(rows, q_len - row));
          u.kv_begin = static_cast<std::int32_t>(kv_begin);
          u.kv_len = static_cast<std::int32_t>(kv_len);
          u.prefix_begin = static_cast<std::int32_t>(prefix_begin);
          u.prefix_len = static_cast<std::int32_t>(prefix);
          u.segment = static_cast<std::int32_t>(s);
          std::vector<device::Unit> pieces;
          if (tile.split_keys > 0 && kv_len > tile.split_keys) {
            u.num_chunks = static_cast<std::int32_t>(ragged::divide_up(kv_len, tile.split_keys));
            if (free_slot + std::int64_t{u.num_chunks} * head_groups <= workspace.slots) {
              for (std::int32_t chunk = 0; chunk < u.num_chunks; ++chunk) {
                u.chunk = chunk;
                u.partial = static_cast<std::int32_t>(free_slot);
                free_slot += head_groups;
                pieces.push_back(u);
              }
            }
          }
          if (pieces.empty()) pieces.push_back(u);
          const double cost = ragged::visible_scores({c.problem.causal, c.problem.block_size}, row,
                                                     row + u.rows, q_len, kv_len);
          found.emplace_back(cost, pieces);
        }
      }
      q_begin += q_len;
      kv_begin += c.kv[s];
      prefix_begin += prefix;
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    table.header.first_unit[rule] = static_cast<std::int32_t>(table.units.size());
    for (const auto& one : found) {
      table.units.insert(table.units.end(), one.second.begin(), one.second.end());
    }
    table.header.num_units[rule] =
        static_cast<std::int32_t>(table.units.size()) - table.header.first_unit[rule];
  }
  return table;
}

int sum(const std::vector<int>& lengths) {
  int total = 0;
  for (const int n : lengths) total += n;
  return total;
}

ragged::DeviceFacts facts() {
  ragged::DeviceFacts f;
  cudaDeviceProp properties;
  CHECK_CUDA(cudaGetDeviceProperties(&properties, 0));
  f.sm_count = properties.multiProcessorCount;
  f.sm_arch = 10 * properties.major + properties.minor;
  f.smem_bytes = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  return f;
}

// A step on the device: tensors, table and workspace.
struct Step {
  const Case& c;
  ragged::TileTable tiles;
  sm80::Workspace workspace;
  Table table;
  device::AttentionArgs args;
  int sm_count;
  char* workspace_data = nullptr;

  explicit Step(const Case& the_case) : c(the_case) {
    const ragged::DeviceFacts f = facts();
    sm_count = f.sm_count;
    tiles = sm80::tiles(c.problem, f);
    workspace = sm80::workspace(tiles, c.problem, f, c.slots);
    args.heads = tiles.rules[0].tile.heads;
    args.head_groups = c.problem.num_qo_heads / args.heads;
    args.head_dim = c.problem.head_dim;
    args.num_qo_heads = c.problem.num_qo_heads;
    args.num_kv_heads = c.problem.num_kv_heads;
    args.mask = {c.problem.causal, c.problem.block_size};
    args.sm_scale = static_cast<float>(c.problem.sm_scale);
    args.scale_log2 = static_cast<float>(c.problem.sm_scale * 1.4426950408889634);
    table = make_table(c, tiles, args.head_groups, workspace);
    void* units = nullptr;
    void* header = nullptr;
    CHECK_CUDA(cudaMalloc(&units, std::max<std::size_t>(48, 48 * table.units.size())));
    CHECK_CUDA(cudaMalloc(&header, sizeof(device::TableHeader)));
    CHECK_CUDA(
        cudaMemcpy(units, table.units.data(), 48 * table.units.size(), cudaMemcpyHostToDevice));
    CHECK_CUDA(
        cudaMemcpy(header, &table.header, sizeof(device::TableHeader), cudaMemcpyHostToDevice));
    args.units = static_cast<device::Unit*>(units);
    args.table = static_cast<device::TableHeader*>(header);
    if (workspace.bytes > 0) {
      CHECK_CUDA(cudaMalloc(&workspace_data, workspace.bytes));
      CHECK_CUDA(cudaMemset(workspace_data, 0xff, workspace.bytes));
      CHECK_CUDA(cudaMemset(workspace_data, 0, workspace.zeroed_bytes));
      args.workspace = workspace_data;
    }
  }
  ~Step() {
    cudaFree(const_cast<device::Unit*>(args.units));
    cudaFree(args.table);
    cudaFree(workspace_data);
  }
  Step(const Step&) = delete;

  void launch(const device::AttentionArgs& a, cudaStream_t stream) const {
    sm80::LaunchShape shape;
    shape.sm_count = sm_count;
    shape.workspace = workspace;
    shape.stream = stream;
    sm80::for_groups(tiles, [&](const sm80::RuleGroup& rules) {
      shape.max_units = 0;
      for (int rule = rules.first; rule <= rules.last; ++rule) {
        shape.max_units += table.header.num_units[rule];
      }
      if (shape.max_units == 0) return;
      CHECK_CUDA(sm80::launch(rules, tiles, c.problem.dtype, a, shape));
      shape.beside_previous = true;
    });
  }
};

}  // namespace
