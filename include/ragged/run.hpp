#pragma once

// Starts a planned kernel. Decides nothing, allocates nothing, never synchronizes a device.

#include <cstddef>
#include <functional>

#include <ragged/executor.hpp>
#include <ragged/plan.hpp>

namespace ragged {

// A device stream as an opaque handle (cudaStream_t); unused on the CPU.
struct Stream {
  void* handle = nullptr;
};

// Scratch memory of at least Plan::workspace_bytes, aligned to 64 bytes.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// Device memory of at least Plan::table_bytes, aligned to 256 bytes, that holds a staged step.
struct StepTable {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// What stage() takes beside the plan.
struct StageArguments {
  StepTable table = {};
  Workspace workspace = {};  // of the runs; what they must find zero there is zeroed
  Stream stream = {};
  // cu_seqlens of the layouts that are not known on the host, in memory of the plan's device. Read
  // by the device, after what is on the stream.
  IndexView q = {};
  IndexView kv = {};
  IndexView prefix = {};
  void* report = nullptr;   // a wrapper's own: where the device says what is wrong with offsets
  std::int32_t number = 1;  // a wrapper's own: which step the report speaks of
};

// Makes the step's table in device memory, on the stream: what runs of this plan with this table
// read, until the next stage() into it. Never synchronizes; the plan may change after it. Nothing
// happens for plans whose table_bytes are 0. Throws invalid_argument naming a table or workspace
// that is too small or misaligned, or offsets that are not those of the plan. Offsets that the
// device finds wrong make an empty table, so that runs write nothing.
void stage(const Plan& plan, const StageArguments& arguments);

struct RunArguments {
  TensorView q;         // [>= q extent, num_qo_heads, head_dim]
  TensorView k;         // [>= kv extent, num_kv_heads, head_dim]; fresh keys with two sources
  TensorView v;         // as k
  TensorView out;       // as q; rows outside every segment stay untouched
  LseView lse;          // [>= q extent, num_qo_heads], or null
  TensorView prefix_k;  // two sources only: [>= prefix extent, num_kv_heads, head_dim]
  TensorView prefix_v;  // as prefix_k
  Workspace workspace;
  StepTable table;               // as it was staged, for plans that have table_bytes
  Executor* executor = nullptr;  // CPU; null: default_executor()
  Stream stream;
};

// Checks the tensors against the plan, then runs it. Throws invalid_argument naming the argument,
// what the plan holds and what came (rows, heads, head_dim, dtype, last stride, device, alignment,
// workspace). With no query rows nothing happens.
void run(const Plan& plan, const RunArguments& arguments);

// What a log callback receives before each run.
struct RunRecord {
  const Plan* plan = nullptr;
  const RunArguments* arguments = nullptr;
};
// Sets the process-wide callback, or removes it with an empty one. Off, a run pays one load.
void set_run_log(std::function<void(const RunRecord&)> callback);

}  // namespace ragged
