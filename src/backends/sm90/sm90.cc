#include "backends/sm90/sm90.hpp"

#include "backends/sm90/kernels.hpp"
#include "device/arguments.hpp"
#include "device/current_device.cuh"
#include "device/declines.hpp"
#include "device/stage.hpp"

namespace ragged {
namespace {

device::TableShape table_of(const TileTable& tiles, const Problem& problem,
                            const StepTotals& totals) {
  return device::table_shape(tiles, totals.num_segments, totals.total_tokens, totals.bounded, 0,
                             problem.num_qo_heads / tiles.rules[0].tile.heads);
}

device::TableShape table_of(const Plan& plan) {
  return table_of(plan.tiles, plan.problem, totals_of(plan.problem, plan.layouts, plan.ceilings));
}

class Sm90 final : public Backend {
 public:
  [[nodiscard]] RaggedAttnBackend id() const noexcept override { return RaggedAttnBackend::SM90; }

  [[nodiscard]] std::string declines(const Problem& problem,
                                     const DeviceFacts& device) const override {
    const std::string reason = device::declines_device(device, 90, 90);
    return reason.empty() ? sm90::declines(problem) : reason;
  }

  [[nodiscard]] Tuning tune(const Problem& problem, const DeviceFacts& device,
                            const StepTotals& totals) const override {
    Tuning tuning;
    tuning.tiles = sm90::tiles(problem, device);
    tuning.table_bytes = device::table_layout(table_of(tuning.tiles, problem, totals)).bytes;
    return tuning;
  }

  [[nodiscard]] std::string kernel_of(const Tile& tile) const override {
    return sm90::kernel_of(tile);
  }

  [[nodiscard]] bool plans_on_device() const noexcept override { return true; }

  void prepare(const Plan& plan) const override {
    const device::CurrentDevice current(plan.device.device.index);
    device::prepare_stage();
    for_launches(plan.tiles, [&](int, const sm90::Rules& rules) {
      check(sm90::prepare(rules, plan.tiles, plan.problem.dtype, plan.problem.head_dim),
            "loading a kernel of sm90");
    });
  }

  void stage(const Plan& plan, const StageArguments& arguments) const override {
    device::StepShape shape;
    shape.table = table_of(plan);
    device::stage_step(plan, arguments, shape);
  }

  [[nodiscard]] std::string declines_tensors(const Plan& plan,
                                             const RunArguments& arguments) const override {
    return sm90::declines_tensors(device::attention_args(plan, arguments));
  }

  void run(const Plan& plan, const RunArguments& arguments) const override {
    const device::CurrentDevice current(plan.device.device.index);
    const device::AttentionArgs args = device::attention_args(plan, arguments);
    sm90::LaunchShape shape;
    shape.sm_count = plan.device.sm_count;
    shape.stream = arguments.stream.handle;
    // Where only the device knows the lengths, every launch may have every unit.
    const bool counted = !plan.ceilings && plan.layouts.known();
    const std::int64_t most = counted ? 0 : table_of(plan).max_entries;
    for_launches(plan.tiles, [&](int first, const sm90::Rules& rules) {
      std::int64_t units = 0;
      for (int rule = first; rule <= rules.last; ++rule) {
        units += plan.rule_units[static_cast<std::size_t>(rule)];
      }
      if (counted && units == 0) return;
      shape.max_units = counted ? units : most;
      check(sm90::launch(rules, plan.tiles, plan.problem.dtype, args, shape),
            "starting a kernel of sm90");
      shape.beside_previous = true;
    });
  }

 private:
  // Calls each(first rule, rules) for every launch of a run.
  template <typename Each>
  static void for_launches(const TileTable& table, Each&& each) {
    for (int first = 0; first < table.num_rules;) {
      const sm90::Rules rules = sm90::rules_from(table, first);
      each(first, rules);
      first = rules.last + 1;
    }
  }
  static void check(int status, const char* what) {
    device::check(static_cast<cudaError_t>(status), what);
  }
};

}  // namespace

const Backend& sm90_backend() {
  static const Sm90 backend;
  return backend;
}

}  // namespace ragged
