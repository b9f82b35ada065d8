#pragma once

// A step as the kernels of a device read it: one table in device memory, made from the offsets by
// the prologue. Plain values, the same on the host, where tests make tables without a device.

#include <cstddef>
#include <cstdint>

#include <ragged/plan.hpp>

namespace ragged::device {

// One work unit, complete: a kernel needs no offsets beside it. Tokens fit 32 bits; a step beyond
// them is refused. Three 16-byte loads.
struct alignas(16) Unit {
  std::int32_t q_begin = 0;       // first row of the segment in q, out and lse
  std::int32_t q_len = 0;         // query rows of the segment
  std::int32_t row_begin = 0;     // of the unit, within the segment
  std::int32_t rows = 0;          // query rows of the unit
  std::int32_t kv_begin = 0;      // first row of the segment in k and v (fresh keys)
  std::int32_t kv_len = 0;        // keys of the segment, prefix and fresh together
  std::int32_t prefix_begin = 0;  // first row of the segment in prefix_k and prefix_v
  std::int32_t prefix_len = 0;    // keys that lie there; they come first. 0 with one source
  // Split keys: the unit takes keys [chunk * Tile::split_keys, ...) of num_chunks such pieces.
  std::int32_t chunk = 0;
  std::int32_t num_chunks = 1;  // 1: not split; the unit takes every key
  // Where the unit's partial results lie: slot `partial` + head group of the workspace. -1: no room
  // there, so one block takes all chunks in turn and merges them in the same order.
  std::int32_t partial = -1;
  std::int32_t segment = 0;
};
static_assert(sizeof(Unit) == 48);

// What the prologue found wrong with offsets that were never on the host.
enum class OffsetFault : std::int32_t {
  none = 0,
  first_not_zero,  // entry 0 of the offsets
  falls,           // entry `index` is smaller than the one before it
  beyond_rows,     // entry `index` lies beyond the ceiling or the tensor's rows
  too_many_units,  // the step needs more units than the table holds
};

struct TableHeader {
  // Units of one rule of the tile table lie together, by falling cost.
  std::int32_t first_unit[kMaxTileRules] = {};
  std::int32_t num_units[kMaxTileRules] = {};
  std::int32_t num_segments = 0;
  OffsetFault fault = OffsetFault::none;
  std::int32_t fault_argument = 0;  // 0: q, 1: kv, 2: prefix
  std::int32_t fault_index = 0;
  std::int64_t fault_value = 0;
  std::int64_t fault_bound = 0;  // what the value was compared with
  // Next item of each rule for blocks that fetch as they go, and blocks that are done. Zero before
  // every run; the last block of a run leaves them so.
  std::uint32_t next_item[kMaxTileRules] = {};
  std::uint32_t blocks_done[kMaxTileRules] = {};
};

}  // namespace ragged::device
