// The kernel that turns the units of a step into FlashInfer's schedule.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "backends/flashinfer/schedule.hpp"

namespace ragged::fi {
namespace {

constexpr int kThreads = 256;
// More keys than a segment has: it is never cut.
constexpr std::int64_t kWhole = std::int64_t{1} << 31;

__global__ void __launch_bounds__(kThreads)
    fill(SchedulePointers schedule, const device::TableHeader* header, const device::Unit* units,
         std::int64_t max_units, int num_rules) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (first == 0) *schedule.chunk_keys = kWhole;
  for (std::int64_t e = first; e < max_units; e += std::int64_t{gridDim.x} * kThreads) {
    bool used = false;
    for (int rule = 0; rule < num_rules; ++rule) {
      const std::int64_t at = e - header->first_unit[rule];
      const bool valid = at >= 0 && at < header->num_units[rule];
      schedule.valid[rule * max_units + e] = valid;
      used |= valid;
    }
    schedule.requests[e] = e;
    schedule.zeros[e] = 0;
    schedule.q_rows[e] = used ? std::int64_t{units[e].q_begin} + units[e].row_begin : 0;
    schedule.kv_rows[e] = used ? units[e].kv_begin : 0;
  }
}

}  // namespace

int prepare_schedule() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, fill);
}

int fill_schedule(const SchedulePointers& schedule, void* table, const device::TableShape& shape,
                  int num_rules, void* stream) {
  constexpr std::int64_t kMostBlocks = 1024;
  const std::int64_t blocks =
      std::clamp<std::int64_t>((shape.max_units + kThreads - 1) / kThreads, 1, kMostBlocks);
  auto* const bytes = static_cast<std::byte*>(table);
  fill<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      schedule, reinterpret_cast<const device::TableHeader*>(bytes),
      reinterpret_cast<const device::Unit*>(bytes + device::units_at()), shape.max_units,
      num_rules);
  return cudaGetLastError();
}

}  // namespace ragged::fi
