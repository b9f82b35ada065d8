#include "backends/sm80/sm80.hpp"

#include <algorithm>
#include <limits>

#include "backends/sm80/kernels.hpp"
#include "cut.hpp"
#include "device/arguments.hpp"
#include "device/current_device.cuh"
#include "device/declines.hpp"
#include "device/stage.hpp"

namespace ragged {
namespace {

// What a step takes beside its tensors.
struct Memory {
  sm80::Workspace workspace;
  device::TableShape table;
  bool has_workspace = false;  // false: no segment's keys can be split
};

// The shortest keys that any rule splits.
std::int64_t least_split(const TileTable& tiles) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < tiles.num_rules; ++i) {
    const std::int64_t keys = tiles.rules[i].tile.split_keys;
    if (keys > 0) least = std::min(least, keys);
  }
  return least;
}

Memory memory_of(const TileTable& tiles, const Problem& problem, const DeviceFacts& device,
                 const StepTotals& totals) {
  const std::int32_t groups = problem.num_qo_heads / tiles.rules[0].tile.heads;
  const auto table = [&](std::int64_t slots) {
    return device::table_shape(tiles, totals.num_segments, totals.total_tokens, totals.bounded,
                               slots, groups);
  };
  Memory memory;
  memory.has_workspace = totals.max_kv_length > least_split(tiles);
  // No more slots than every unit in pieces takes.
  std::int64_t slots = 0;
  if (memory.has_workspace) {
    const std::int64_t pieces = divide_up(totals.max_kv_length, least_split(tiles));
    const std::int64_t items = table(0).max_units * groups;
    const std::int64_t useful = sm80::useful_slots(tiles, problem, device);
    slots = items > useful ? useful : std::min(useful, items * pieces);
  }
  memory.workspace = sm80::workspace(tiles, problem, device, slots);
  memory.table = table(slots);
  return memory;
}

Memory memory_of(const Plan& plan) {
  return memory_of(plan.tiles, plan.problem, plan.device,
                   totals_of(plan.problem, plan.layouts, plan.ceilings));
}

class Sm80 final : public Backend {
 public:
  [[nodiscard]] RaggedAttnBackend id() const noexcept override { return RaggedAttnBackend::SM80; }

  [[nodiscard]] std::string declines(const Problem& problem,
                                     const DeviceFacts& device) const override {
    constexpr int kAnyNewer = 1 << 20;
    const std::string reason = device::declines_device(device, 80, kAnyNewer);
    return reason.empty() ? sm80::declines(problem) : reason;
  }

  [[nodiscard]] Tuning tune(const Problem& problem, const DeviceFacts& device,
                            const StepTotals& totals) const override {
    Tuning tuning;
    tuning.tiles = sm80::tiles(problem, device);
    const Memory memory = memory_of(tuning.tiles, problem, device, totals);
    tuning.workspace_bytes = memory.has_workspace ? memory.workspace.bytes : 0;
    tuning.table_bytes = device::table_layout(memory.table).bytes;
    return tuning;
  }

  [[nodiscard]] bool plans_on_device() const noexcept override { return true; }

  void prepare(const Plan& plan) const override {
    const device::CurrentDevice current(plan.device.device.index);
    device::prepare_stage();
    sm80::for_groups(plan.tiles, [&](const sm80::RuleGroup& rules) {
      check(sm80::prepare(rules, plan.tiles, plan.problem.dtype, plan.problem.head_dim),
            "loading a kernel of sm80");
    });
  }

  void stage(const Plan& plan, const StageArguments& arguments) const override {
    const Memory memory = memory_of(plan);
    device::StepShape shape;
    shape.table = memory.table;
    shape.partial_slots = memory.workspace.slots;
    shape.zeroed_bytes = memory.has_workspace ? memory.workspace.zeroed_bytes : 0;
    device::stage_step(plan, arguments, shape);
  }

  void run(const Plan& plan, const RunArguments& arguments) const override {
    const device::CurrentDevice current(plan.device.device.index);
    const Memory memory = memory_of(plan);
    const device::AttentionArgs args = device::attention_args(plan, arguments);
    sm80::LaunchShape shape;
    shape.sm_count = plan.device.sm_count;
    shape.workspace = memory.workspace;
    shape.stream = arguments.stream.handle;
    // Where only the device knows the lengths, every group may have every unit.
    const bool counted = !plan.ceilings && plan.layouts.known();
    const std::int64_t pieces = memory.table.max_entries - memory.table.max_units;
    sm80::for_groups(plan.tiles, [&](const sm80::RuleGroup& rules) {
      std::int64_t units = 0;
      for (int rule = rules.first; rule <= rules.last; ++rule) {
        units += plan.rule_units[static_cast<std::size_t>(rule)];
      }
      if (counted && units == 0) return;
      shape.max_units =
          counted ? units + (rules.splits_keys ? pieces : 0) : memory.table.max_entries;
      check(sm80::launch(rules, plan.tiles, plan.problem.dtype, args, shape),
            "starting a kernel of sm80");
      shape.beside_previous = plan.device.sm_arch >= 90;
    });
  }

 private:
  static void check(int status, const char* what) {
    device::check(static_cast<cudaError_t>(status), what);
  }
};

}  // namespace

const Backend& sm80_backend() {
  static const Sm80 backend;
  return backend;
}

}  // namespace ragged
