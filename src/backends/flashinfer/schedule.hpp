#pragma once

// FlashInfer's schedule, made on the device from the step's table. FlashInfer's own planner makes
// it on the host, which would have to know the offsets and to keep a pinned copy of the result
// until the stream has come to it.

#include <cstddef>

#include "backends/flashinfer/kernel_set.hpp"
#include "device/table.hpp"

namespace ragged::fi {

// Byte offsets from the start of the step's table, behind what the prologue writes.
struct ScheduleLayout {
  std::size_t q_rows_at = 0;
  std::size_t kv_rows_at = 0;
  std::size_t requests_at = 0;
  std::size_t zeros_at = 0;
  std::size_t chunk_keys_at = 0;
  std::size_t valid_at = 0;  // [rules, max_units]
  std::size_t bytes = 0;     // of the whole table
};
ScheduleLayout schedule_layout(const device::TableShape& shape, int num_rules) noexcept;

// Pointers into a table; `valid` is that of rule 0.
SchedulePointers schedule_at(const ScheduleLayout& layout, void* table) noexcept;

// Loads the kernel onto the current device. A cudaError_t as int.
int prepare_schedule();

// Fills the schedule from the table's header and units, in the order of `stream` (cudaStream_t).
// The launch depends on the shape alone. A cudaError_t as int.
int fill_schedule(const SchedulePointers& schedule, void* table, const device::TableShape& shape,
                  int num_rules, void* stream);

}  // namespace ragged::fi
