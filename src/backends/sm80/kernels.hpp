#pragma once

// The portable kernels for NVIDIA GPUs from Ampere on, as plain C++: which tiles, what the build
// lacks, how the workspace lies, and the launch.

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/contract.hpp"
#include "device/attention_args.hpp"

namespace ragged::sm80 {

// Why these kernels cannot serve the problem: a head dim or dtype that this build lacks, named with
// what it has; empty if they can. Pure.
std::string declines(const Problem& problem);

// The tile table of a problem. Pure. Bounds depend on lengths alone, never on head counts: a rank's
// slice of the heads keeps the bits of the whole.
TileTable tiles(const Problem& problem, const DeviceFacts& device);

// Rules next to each other that one kernel serves: a launch takes the units of all.
struct RuleGroup {
  int first = 0;
  int last = 0;
  bool splits_keys = false;  // any of them
};
// The group that begins with this rule. Pure.
RuleGroup rule_group(const TileTable& table, int first);

// each(group), for all of a table.
template <typename Each>
void for_groups(const TileTable& table, Each&& each) {
  for (int first = 0; first < table.num_rules;) {
    const RuleGroup group = rule_group(table, first);
    each(group);
    first = group.last + 1;
  }
}

// Workspace of a plan: counters, then partial results. A slot holds one piece of one unit's keys
// for one head group. The pieces of one unit take slots in chunk order:
//   Unit::partial = first slot of the unit + chunk * head_groups,  + head group (the kernel adds)
// so a unit of num_chunks pieces takes num_chunks * head_groups slots. `slots` may be 0: every unit
// then has partial -1, and the blocks keep what they merge in `turn` slots of their own.
struct Workspace {
  std::int64_t slots = 0;        // for pieces that run side by side
  std::int64_t turn_slots = 0;   // one for each block that takes pieces in turn
  std::size_t slot_bytes = 0;    // alike for all rules
  std::size_t partials_at = 0;   // byte offset of slot 0; the turn slots follow the others
  std::size_t bytes = 0;         // of the whole; 0 where no rule splits keys
  std::size_t zeroed_bytes = 0;  // from the start: zero before the first run; runs leave them so
};
Workspace workspace(const TileTable& table, const Problem& problem, const DeviceFacts& device,
                    std::int64_t slots);

// More slots than this speed nothing up: enough blocks are busy without them. With so many,
// workspace() stays below 64 MiB on any device of up to 148 SMs.
std::int64_t useful_slots(const TileTable& table, const Problem& problem,
                          const DeviceFacts& device);

struct LaunchShape {
  std::int64_t max_units = 0;  // of the rules: exact, or the ceiling of a captured launch
  int sm_count = 0;
  // May run beside the launch before it on the stream, which must be another group of the same run.
  // Only where the device has programmatic dependent launch (sm_90).
  bool beside_previous = false;
  Workspace workspace;
  void* stream = nullptr;  // cudaStream_t
};

// Loads the kernel of a group onto the current device, so that a launch may be captured at once. A
// cudaError_t as int; 0 is success.
int prepare(const RuleGroup& rules, const TileTable& table, DType dtype, int head_dim);

// Launches the units of a group on the current device: args.table and args.units are read on the
// device. Writes the rows of those units alone. args.workspace as in shape.workspace, 256-byte
// aligned. Groups may be launched in any order, on one stream. A cudaError_t as int.
int launch(const RuleGroup& rules, const TileTable& table, DType dtype,
           const device::AttentionArgs& args, const LaunchShape& shape);

}  // namespace ragged::sm80
