#pragma once

// Which items a block takes: its own index first, then whatever is next, so that blocks that got
// cheap items take more. Which block computes an item never shows in its bits.

#include <cstdint>

#include "backends/sm80/args.cuh"
#include "backends/sm80/mma.cuh"

namespace ragged::sm80 {

// In shared memory. The first warp fills the one half while the block works on the other.
struct ScheduleMemory {
  Item items[2];
  device::Unit next;
};

// for (schedule.start(); schedule.more(); schedule.advance()) { ... schedule.item() ... }
template <int kElementBytes>
class Schedule {
 public:
  __device__ __forceinline__ Schedule(const KernelArgs& p, ScheduleMemory& memory)
      : p_(p), memory_(memory) {}

  __device__ __forceinline__ void start() {
    if (threadIdx.x < 32) {
      if (threadIdx.x == 0 && blockIdx.x < num_items()) {
        memory_.next = load_unit(unit_of(blockIdx.x));
      }
      publish(blockIdx.x, 0);
    }
    __syncthreads();
  }
  [[nodiscard]] __device__ __forceinline__ bool more() const { return item().rows >= 0; }
  [[nodiscard]] __device__ __forceinline__ const Item& item() const {
    return memory_.items[phase_];
  }
  // Asks for the next item; called early in an item, so that the answer is there for prefetch().
  __device__ __forceinline__ void fetch() {
    if (threadIdx.x == 0) {
      fetched_ =
          many_rounds() ? atomicAdd(&p_.a.table->next_item[p_.rule], 1U) + gridDim.x : num_items();
    }
  }
  // Asks for its unit; called once per item, after fetch() and before its copies are waited for in
  // advance().
  __device__ __forceinline__ void prefetch() {
    if (threadIdx.x == 0 && fetched_ < num_items()) {
      const auto* from = reinterpret_cast<const char*>(unit_of(fetched_));
      const std::uint32_t to = shared_address(&memory_.next);
      copy_async(to, from);
      copy_async(to + 16, from + 16);
      copy_async(to + 32, from + 32);
      copies_commit();
    }
  }
  // A barrier of the block, after which shared memory may be overwritten.
  __device__ __forceinline__ void advance() {
    phase_ ^= 1;
    if (threadIdx.x < 32) {
      copies_wait<0>();
      publish(__shfl_sync(0xffffffffU, fetched_, 0), phase_);
    }
    __syncthreads();
  }
  // The last block of the grid leaves the counters as it found them.
  __device__ __forceinline__ void finish() const {
    if (threadIdx.x != 0 || !many_rounds()) return;
    device::TableHeader& table = *p_.a.table;
    __threadfence();
    if (atomicAdd(&table.blocks_done[p_.rule], 1U) == gridDim.x - 1) {
      table.next_item[p_.rule] = 0;
      table.blocks_done[p_.rule] = 0;
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ std::uint32_t num_items() const {
    return static_cast<std::uint32_t>(p_.a.table->num_units[p_.rule]) *
           static_cast<std::uint32_t>(p_.a.head_groups);
  }
  [[nodiscard]] __device__ __forceinline__ bool many_rounds() const {
    return num_items() > gridDim.x;
  }
  [[nodiscard]] __device__ __forceinline__ const device::Unit* unit_of(std::uint32_t id) const {
    return p_.a.units + p_.a.table->first_unit[p_.rule] +
           id / static_cast<std::uint32_t>(p_.a.head_groups);
  }
  // By the first warp.
  __device__ __forceinline__ void publish(std::uint32_t id, int phase) {
    __syncwarp();
    Item& item = memory_.items[phase];
    if (id < num_items()) {
      fill_item<kElementBytes>(p_, memory_.next, id, threadIdx.x, item);
    } else if (threadIdx.x == 0) {
      item.rows = -1;
    }
  }

  const KernelArgs& p_;
  ScheduleMemory& memory_;
  int phase_ = 0;
  std::uint32_t fetched_ = 0;  // thread 0
};

}  // namespace ragged::sm80
