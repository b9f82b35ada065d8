#pragma once

// The kernels for NVIDIA Hopper GPUs, as plain C++: which tiles, what the build lacks, and the
// launch. bf16 and fp16.

#include <cstddef>
#include <cstdint>
#include <string>

#include <ragged/plan.hpp>

#include "device/attention_args.hpp"

namespace ragged::sm90 {

// Why these kernels cannot serve the problem: a head dim, dtype or scale, named with what they
// serve; empty if they can. Pure.
std::string declines(const Problem& problem);

// What of these tensors the copy engine cannot take: a base or a stride that is not a multiple of
// 16 bytes, named; empty if it takes all. Pure.
std::string declines_tensors(const device::AttentionArgs& args);

// The tile table of a problem. Pure. Bounds depend on lengths alone, never on head counts: a rank's
// slice of the heads keeps the bits of the whole.
TileTable tiles(const Problem& problem, const DeviceFacts& device);

// Rules of one kernel, next to one another in the table: the last, and before it that of teams if
// there is one.
struct Rules {
  std::int32_t last = 0;
  std::int32_t teams = -1;  // -1: none
};

// The rules that one launch serves, from `first` on; those of the next begin after `last`. Pure.
Rules rules_from(const TileTable& table, int first);

// What the kernel of a tile is called, for people. Pure.
std::string kernel_of(const Tile& tile);

struct LaunchShape {
  std::int64_t max_units = 0;  // of the rules: exact, or the ceiling of a captured launch
  int sm_count = 0;
  void* stream = nullptr;  // cudaStream_t
  // May begin while the launch before it on the stream still runs: one of the same run.
  bool beside_previous = false;
};

// Loads the kernel of these rules onto the current device, so that a launch may be captured at
// once. A cudaError_t as int; 0 is success.
int prepare(const Rules& rules, const TileTable& table, DType dtype, int head_dim);

// Launches the units of these rules on the current device: args.table and args.units are read on
// the device. Writes the rows of those units alone. Launches may come in any order, on one stream
// or side by side. A cudaError_t as int. Precondition: args.head_groups * shape.max_units, rounded
// up to a multiple of 3 * sm_count and tripled, fits 31 bits.
int launch(const Rules& rules, const TileTable& table, DType dtype,
           const device::AttentionArgs& args, const LaunchShape& shape);

}  // namespace ragged::sm90
