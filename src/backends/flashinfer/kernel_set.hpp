#pragma once

// FlashInfer's kernels of one type and head dim, as plain C++: what a launch brings, and the
// launch.

#include <cstdint>

#include "device/attention_args.hpp"

namespace ragged::fi {

// What the kernels read beside the units of a step (schedule.hpp). In FlashInfer's words a unit is
// a request of one query tile: entry e of these arrays is unit e's.
struct SchedulePointers {
  std::int64_t* q_rows = nullptr;      // first row of the unit in q and out
  std::int64_t* kv_rows = nullptr;     // first row of its keys in k and v
  std::int64_t* requests = nullptr;    // e
  std::int64_t* zeros = nullptr;       // 0: a request has one query tile, and one piece of keys
  std::int64_t* chunk_keys = nullptr;  // keys of a piece: more than any segment has; one entry
  bool* valid = nullptr;               // of one rule: whether the unit is the rule's; null: all are
};

// Heads of k and v [0, num_kv_heads), with `group` query heads each. `out` is dense:
// [tokens, num_kv_heads * group, head_dim].
struct Launch {
  device::TensorArg q, k, v, out;
  device::LseArg lse;
  int group = 1;
  int num_kv_heads = 1;
  float scale_log2 = 0.0F;
  bool causal = false;
  int tile_rows = 0;  // packed rows (query rows x group) of a unit: 16, 64 or 128
  const device::Unit* units = nullptr;
  SchedulePointers schedule;
  std::int64_t num_units = 0;  // blocks of each key head
  void* stream = nullptr;      // cudaStream_t
};

struct KernelSet {
  // Loads the kernel of (tile_rows, causal) onto the current device. A cudaError_t as int.
  int (*prepare)(int tile_rows, bool causal) = nullptr;
  // Starts it. A cudaError_t as int.
  int (*launch)(const Launch& launch) = nullptr;
};

}  // namespace ragged::fi
