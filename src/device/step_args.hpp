#pragma once

// A step as the prologue is launched with it: where its offsets lie, how segments are cut, and the
// table to fill. Plain values; on the host the same struct makes a table in host memory.

#include <cstdint>

#include <ragged/plan.hpp>

#include "device/unit.hpp"
#include "visible.hpp"

namespace ragged::device {

// The rows of one layout: segment i is [begins[i], ends[i]). Entries are int32 or int64.
struct OffsetsArg {
  const void* begins = nullptr;  // null: the layout is not there
  const void* ends = nullptr;
  std::int64_t stride = 1;  // elements, of both
  bool is_int64 = false;
  // The values were on the host and are right. Otherwise the two arrays are one of num_segments + 1
  // entries, which the prologue checks before anything is made from them.
  bool checked = true;
  std::int64_t bound = 0;  // what the last entry may be at most; not checked ones only
};

// Where the prologue says what is wrong with offsets that it has read: host memory, written across
// the bus and only when there is something to say.
struct FaultReport {
  std::int64_t count = 0;    // faults found so far
  std::int32_t current = 0;  // StepArgs::number of the table's last step while it is at fault, or 0
  OffsetFault fault = OffsetFault::none;
  std::int32_t argument = 0;
  std::int32_t index = 0;
  std::int64_t value = 0;
  std::int64_t bound = 0;  // what the value was compared with
};

struct StepArgs {
  OffsetsArg q;
  OffsetsArg kv;      // not there: the keys lie as the queries
  OffsetsArg prefix;  // two sources only
  Mask mask;
  TileTable tiles;
  std::int32_t num_segments = 0;
  std::int32_t head_groups = 1;
  std::int64_t max_units = 0;      // that the table holds
  std::int64_t partial_slots = 0;  // of the workspace, for pieces of split keys
  TableHeader* table = nullptr;
  Unit* units = nullptr;
  std::int32_t* grants = nullptr;   // [num_segments] first slot of a segment; only where keys split
  std::uint32_t* shared = nullptr;  // [kSharedWords] for blocks to meet in
  FaultReport* report = nullptr;    // null: the header alone says it
  std::int32_t number = 1;          // of the step, for the report; never 0
  std::uint32_t* zeroed = nullptr;  // words of the workspace that are to be zero before a run
  std::int64_t num_zeroed = 0;
};

}  // namespace ragged::device
