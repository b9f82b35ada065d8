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
  std::int32_t next_split_keys;
  std::uint32_t num_items;
};

// for (schedule.start(); schedule.more(); schedule.advance()) { ... schedule.item() ... }
template <int kElementBytes>
class Schedule {
 public:
  __device__ __forceinline__ Schedule(const KernelArgs& p, ScheduleMemory& memory)
      : p_(p), memory_(memory) {}

  __device__ __forceinline__ void start() {
    if (threadIdx.x < 32) {
      if (threadIdx.x == 0) {
        std::int32_t units = 0;
        for (std::int32_t rule = p_.first_rule; rule <= p_.last_rule; ++rule) {
          units += p_.a.table->num_units[rule];
        }
        memory_.num_items =
            static_cast<std::uint32_t>(units) * static_cast<std::uint32_t>(p_.a.head_groups);
        if (blockIdx.x < num_items()) memory_.next = load_unit(unit_of(blockIdx.x));
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
      fetched_ = many_rounds() ? atomicAdd(&p_.a.table->next_item[p_.first_rule], 1U) + gridDim.x
                               : num_items();
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
    if (atomicAdd(&table.blocks_done[p_.first_rule], 1U) == gridDim.x - 1) {
      table.next_item[p_.first_rule] = 0;
      table.blocks_done[p_.first_rule] = 0;
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ std::uint32_t num_items() const {
    return memory_.num_items;
  }
  [[nodiscard]] __device__ __forceinline__ bool many_rounds() const {
    return num_items() > gridDim.x;
  }
  // The unit of an item, and how its rule splits keys. Rules from the last: it has the longest
  // segments, and what takes longest goes first.
  [[nodiscard]] __device__ __forceinline__ const device::Unit* unit_of(std::uint32_t id) const {
    auto index = static_cast<std::int32_t>(id / static_cast<std::uint32_t>(p_.a.head_groups));
    std::int32_t rule = p_.last_rule;
    for (; rule > p_.first_rule; --rule) {
      const std::int32_t units = p_.a.table->num_units[rule];
      if (index < units) break;
      index -= units;
    }
    memory_.next_split_keys = p_.split_keys[rule];
    return p_.a.units + p_.a.table->first_unit[rule] + index;
  }
  // By the first warp.
  __device__ __forceinline__ void publish(std::uint32_t id, int phase) {
    __syncwarp();
    Item& item = memory_.items[phase];
    if (id < num_items()) {
      fill_item<kElementBytes>(p_, memory_.next, memory_.next_split_keys, id, threadIdx.x, item);
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
