#pragma once

// The plan: a value that says which backend serves a step, with which tiles, in which work units,
// and why every other backend declined. Made by pure choice on plain values, also for a device that
// is not there; it can be printed and compared.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ragged/layout.hpp>

namespace ragged {

class Backend;  // src/backends/contract.hpp

// What is computed, without any layout. Head counts are this rank's.
struct Problem {
  AttentionKind kind = AttentionKind::self;
  int num_qo_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  double sm_scale = 0.0;
  DType dtype = DType::bf16;
  bool causal = false;          // self and prefixed only; bottom-right aligned
  std::int64_t block_size = 0;  // tokens; block_causal only
  bool two_sources = false;     // prefixed only: prefix K/V and fresh K/V in tensors of their own

  // Query heads that share one key head.
  [[nodiscard]] int group() const noexcept { return num_qo_heads / num_kv_heads; }
  // Throws invalid_argument naming the first field out of its range, or the head counts that do not
  // divide.
  void validate() const;
  friend bool operator==(const Problem&, const Problem&) = default;
};

// The layouts of one step. kv is unused where keys share the query layout (self, block_causal, and
// the fresh keys of two sources unless they were given offsets of their own).
struct StepLayouts {
  Layout q;
  Layout kv;
  Layout prefix;  // two sources only
  bool kv_is_q = false;

  [[nodiscard]] const Layout& keys() const noexcept { return kv_is_q ? q : kv; }
  // False where any of them lies on a device and is read there.
  [[nodiscard]] bool known() const noexcept {
    return q.known() && keys().known() && prefix.known();
  }
  // Keys of segment i: prefix and fresh together.
  [[nodiscard]] std::int64_t kv_length(std::int64_t i) const noexcept {
    return keys().length(i) + (prefix.num_segments() > 0 ? prefix.length(i) : 0);
  }
  friend bool operator==(const StepLayouts&, const StepLayouts&) = default;
};

// Facts of a device, as plain values; choices are made on these alone.
struct DeviceFacts {
  Device device = {};
  std::string name;   // "cpu", "h200", "cuda:0"
  std::string model;  // as its maker calls it, for a GPU of this machine: "NVIDIA H200"
  std::string simd;   // CPU: "scalar", "sse4", "avx2", "avx512", "amx", "neon", "sve"
  int threads = 1;    // CPU: workers that a run may use
  std::int64_t l1d_bytes = 32768;
  std::int64_t l2_bytes = 524288;
  int sm_arch = 0;              // GPU: 90 for compute capability 9.0
  int sm_count = 0;             // GPU
  std::int64_t smem_bytes = 0;  // GPU: shared memory that one block may use
  bool present = true;          // false: named, but not the machine that this runs on
  std::string absence = {};     // why a device of this machine is not present: "no CUDA driver"

  // This machine's CPU with `threads` workers; 0 takes every core that the process may use.
  static DeviceFacts host(int threads = 0);
  // A device of this machine; one that is not here is not `present`, and says in `absence` why.
  static DeviceFacts of(Device device);
  // "cpu", "cpu:avx2", "cpu:avx2:8", "cuda", "cuda:1", "h200", "h100", "a100". Throws
  // invalid_argument naming the text and the accepted names.
  static DeviceFacts parse(std::string_view text);
  // The form that parse() takes.
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const DeviceFacts&, const DeviceFacts&) = default;
};

// How one worker walks a segment. Chosen by the segment's own lengths alone (TileTable), so that a
// row's bits never depend on the neighbours.
struct Tile {
  std::int32_t q_rows = 1;     // query rows computed together (lanes or a tile's rows)
  std::int32_t kv_rows = 1;    // keys of one step
  std::int32_t unit_rows = 1;  // query rows of one work unit, a multiple of q_rows
  std::int32_t heads = 1;      // query heads of one key head taken together by one work item
  std::int32_t variant = 0;    // the backend's own: which of its kernels
  // Keys of a segment are walked in pieces of this many, each with a softmax of its own, merged in
  // order: pieces of one unit may then run side by side. 0: in one piece.
  std::int32_t split_keys = 0;
  // What a walk's end is rounded up to, where a kernel cuts its last step shorter. For figures
  // alone: no choice depends on them.
  std::int32_t row_step = 0;  // rows of a unit's last tile; 0: whole tiles of q_rows
  std::int32_t key_step = 0;  // keys up to the last that a tile's rows see; 0: whole kv_rows
  friend bool operator==(const Tile&, const Tile&) = default;
};

// The first rule whose bounds hold both lengths gives the tile; the last rule holds every length.
struct TileRule {
  std::int64_t max_q_length = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_kv_length = std::numeric_limits<std::int64_t>::max();
  Tile tile;
  friend bool operator==(const TileRule&, const TileRule&) = default;
};
inline constexpr int kMaxTileRules = 8;
struct TileTable {
  std::int32_t num_rules = 0;
  TileRule rules[kMaxTileRules] = {};
  friend bool operator==(const TileTable&, const TileTable&) = default;
};

// A range of one segment's query rows. A work item is a unit for one group of `tile.heads` query
// heads; item ids run over units first, then head groups: id = unit * items_per_unit + head group.
struct WorkUnit {
  std::int64_t row_begin = 0;  // within the segment
  std::int32_t rows = 0;
  std::int32_t rule = 0;  // of the tile table
  std::int64_t segment = 0;
  friend bool operator==(const WorkUnit&, const WorkUnit&) = default;
};

// Ceilings of capacity mode; every choice is made on these, never on a step's layout.
struct Ceilings {
  std::int64_t max_num_segments = 0;
  std::int64_t max_total_tokens = 0;
  std::int64_t max_total_kv_tokens = 0;
  friend bool operator==(const Ceilings&, const Ceilings&) = default;
};

// Rows that a step on a GPU has at most, in any one layout: its table holds 32-bit offsets.
inline constexpr std::int64_t kMostDeviceRows = std::numeric_limits<std::int32_t>::max();

struct Declined {
  std::string backend;
  std::string reason;
  friend bool operator==(const Declined&, const Declined&) = default;
};

// Arithmetic done in vain by the plan's tiles: rows of a tile beyond its unit, scores beyond a
// row's visible interval.
struct Waste {
  std::int64_t rows_useful = 0;
  std::int64_t rows_computed = 0;
  double scores_useful = 0;
  double scores_computed = 0;
};

// Room that planning keeps from one step to the next. No part of a plan's value: any two are equal.
struct PlanScratch {
  std::vector<std::uint16_t> segment_notes;
  friend bool operator==(const PlanScratch&, const PlanScratch&) noexcept { return true; }
};

struct Plan {
  Problem problem;
  StepLayouts layouts;
  std::optional<Ceilings> ceilings;  // capacity mode
  DeviceFacts device;
  const Backend* backend = nullptr;  // lives as long as the program
  std::string backend_name;
  std::string choice_reason;  // why this backend was taken
  std::vector<Declined> declined;
  TileTable tiles;
  std::vector<WorkUnit> units;  // by falling cost; empty where a device places them (work_units())
  std::int64_t num_units = 0;
  // Units of each rule of the tile table; only where a device places them.
  std::array<std::int64_t, kMaxTileRules> rule_units = {};
  std::int64_t items_per_unit = 0;
  std::size_t workspace_bytes = 0;
  std::size_t table_bytes = 0;  // device memory for the step's table (run.hpp: stage); 0 on the CPU
  PlanScratch scratch;

  [[nodiscard]] std::int64_t num_items() const noexcept { return num_units * items_per_unit; }
  // The work list: `units`, or what the device places, in the host's order.
  [[nodiscard]] std::vector<WorkUnit> work_units() const;
  // 4 * sum(visible scores) * num_qo_heads * head_dim.
  [[nodiscard]] double flops() const;
  // Bytes of q, k, v and out, each once.
  [[nodiscard]] double bytes() const;
  [[nodiscard]] Waste waste() const;
  // For people: backend, tiles, work, waste, workspace, and what each other backend lacked.
  [[nodiscard]] std::string explain() const;
  // The same as JSON; `with_units` adds the work list.
  [[nodiscard]] std::string to_json(bool with_units = false) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Plans a step into `plan`, reusing its storage: once it has held a larger step, nothing is
// allocated. Host work is O(segments). `backends` in order of preference; `pinned` other than AUTO
// takes that backend or none. Throws invalid_argument (problem, segment counts that differ),
// out_of_range (ceilings, naming count and ceiling), unsupported (with each backend's reason). On a
// throw `plan` is as before.
void make_plan(Plan& plan, const Problem& problem, const StepLayouts& layouts,
               const DeviceFacts& device, std::span<const Backend* const> backends,
               RaggedAttnBackend pinned = RaggedAttnBackend::AUTO,
               const std::optional<Ceilings>& ceilings = std::nullopt);

}  // namespace ragged
