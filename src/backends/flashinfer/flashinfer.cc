#include "backends/flashinfer/flashinfer.hpp"

#include <algorithm>
#include <cstddef>

#include "backends/flashinfer/built.hpp"
#include "backends/flashinfer/choice.hpp"
#include "backends/flashinfer/padding.hpp"
#include "backends/flashinfer/schedule.hpp"
#include "device/arguments.hpp"
#include "device/current_device.cuh"
#include "device/declines.hpp"
#include "device/stage.hpp"

namespace ragged {
namespace {

void check(int status, const char* what) { device::check(static_cast<cudaError_t>(status), what); }

device::TableShape table_of(const TileTable& tiles, const Problem& problem,
                            const StepTotals& totals) {
  return device::table_shape(tiles, totals.num_segments, totals.total_tokens, totals.bounded, 0,
                             problem.num_kv_heads);
}

device::TableShape table_of(const Plan& plan) {
  return table_of(plan.tiles, plan.problem, totals_of(plan.problem, plan.layouts, plan.ceilings));
}

fi::Copies copies_of(const Problem& problem, const StepTotals& totals) {
  return fi::copies_of(problem, fi::kernel_dim(problem), totals);
}

// Precondition: the problem is not declined.
fi::KernelSet kernels_of(const Problem& problem) {
  const int dim = fi::kernel_dim(problem);
  for (const fi::Instance& instance : fi::kInstances) {
    if (instance.dtype == problem.dtype && instance.dim == dim) return instance.kernels();
  }
  throw Error(ErrorCode::internal, "flashinfer has no kernels for this plan");
}

class FlashInfer final : public Backend {
 public:
  [[nodiscard]] RaggedAttnBackend id() const noexcept override {
    return RaggedAttnBackend::FLASHINFER;
  }

  [[nodiscard]] std::string declines(const Problem& problem,
                                     const DeviceFacts& device) const override {
    constexpr int kAnyNewer = 1 << 20;
    const std::string reason = device::declines_device(device, 80, kAnyNewer);
    return reason.empty() ? fi::declines(problem) : reason;
  }

  [[nodiscard]] Tuning tune(const Problem& problem, const DeviceFacts& /*device*/,
                            const StepTotals& totals) const override {
    Tuning tuning;
    tuning.tiles = fi::tiles(problem);
    const device::TableShape shape = table_of(tuning.tiles, problem, totals);
    tuning.table_bytes = fi::schedule_layout(shape, tuning.tiles.num_rules).bytes;
    tuning.workspace_bytes = copies_of(problem, totals).bytes;
    return tuning;
  }

  [[nodiscard]] bool plans_on_device() const noexcept override { return true; }

  void prepare(const Plan& plan) const override {
    const device::CurrentDevice current(plan.device.device.index);
    device::prepare_stage();
    check(fi::prepare_schedule(), "loading flashinfer's schedule");
    check(fi::prepare_padding(), "loading flashinfer's copies");
    const fi::KernelSet kernels = kernels_of(plan.problem);
    for (int rule = 0; rule < plan.tiles.num_rules; ++rule) {
      check(kernels.prepare(plan.tiles.rules[rule].tile.variant, plan.problem.causal),
            "loading a kernel of flashinfer");
    }
  }

  void stage(const Plan& plan, const StageArguments& arguments) const override {
    const device::CurrentDevice current(plan.device.device.index);
    device::StepShape shape;
    shape.table = table_of(plan);
    device::stage_step(plan, arguments, shape);
    const int rules = plan.tiles.num_rules;
    const auto schedule =
        fi::schedule_at(fi::schedule_layout(shape.table, rules), arguments.table.data);
    check(fi::fill_schedule(schedule, arguments.table.data, shape.table, rules,
                            arguments.stream.handle),
          "starting flashinfer's schedule");
  }

  [[nodiscard]] std::string declines_tensors(const Plan& plan,
                                             const RunArguments& arguments) const override {
    // Copies are made from rows that begin anywhere.
    if (plan.workspace_bytes > 0) return {};
    return fi::declines_tensors(device::attention_args(plan, arguments));
  }

  void run(const Plan& plan, const RunArguments& arguments) const override {
    const device::CurrentDevice current(plan.device.device.index);
    const device::AttentionArgs args = device::attention_args(plan, arguments);
    const device::TableShape shape = table_of(plan);
    fi::Launch launch;
    launch.q = args.q;
    launch.k = args.k;
    launch.v = args.v;
    launch.out = args.out;
    launch.lse = args.lse;
    launch.group = plan.problem.group();
    launch.num_kv_heads = plan.problem.num_kv_heads;
    launch.scale_log2 = args.scale_log2;
    launch.causal = plan.problem.causal;
    launch.stream = arguments.stream.handle;
    if (plan.workspace_bytes == 0) return start_rules(plan, shape, args, launch);
    const fi::Copies copies =
        copies_of(plan.problem, totals_of(plan.problem, plan.layouts, plan.ceilings));
    for (int head = 0; head < plan.problem.num_kv_heads; head += copies.kv_heads) {
      run_padded(plan, shape, args, copies, head, launch);
    }
  }

 private:
  // Key heads from `head` on, as many as the copies hold.
  static void run_padded(const Plan& plan, const device::TableShape& shape,
                         const device::AttentionArgs& args, const fi::Copies& copies, int head,
                         fi::Launch launch) {
    const Problem& problem = plan.problem;
    const int kv_heads = std::min(copies.kv_heads, problem.num_kv_heads - head);
    const int q_heads = kv_heads * launch.group;
    const int q_head = head * launch.group;
    auto* const copy = static_cast<std::byte*>(args.workspace);
    const fi::PadArgs in[] = {pad_args(args.q, q_head, q_heads, copies.q_rows, copy),
                              pad_args(args.k, head, kv_heads, copies.kv_rows, copy + copies.k_at),
                              pad_args(args.v, head, kv_heads, copies.kv_rows, copy + copies.v_at)};
    check(fi::pad(in, problem.head_dim, copies.dim, launch.stream), "starting flashinfer's copies");
    launch.q = dense(in[0], copies.dim);
    launch.k = dense(in[1], copies.dim);
    launch.v = dense(in[2], copies.dim);
    launch.out = launch.q;
    launch.out.data = copy + copies.out_at;
    if (launch.lse.data != nullptr) launch.lse.data += q_head * launch.lse.head_stride;
    launch.num_kv_heads = kv_heads;
    start_rules(plan, shape, args, launch);
    check(fi::unpad(launch.out.data, from_head(args.out, q_head), q_heads, problem.head_dim,
                    copies.dim, args.table, args.units, shape.max_units, launch.stream),
          "starting flashinfer's copies");
  }

  static device::TensorArg from_head(device::TensorArg tensor, int head) {
    constexpr std::int64_t kBytes = 2;  // of an element
    tensor.data = static_cast<std::byte*>(tensor.data) + head * tensor.head_stride * kBytes;
    return tensor;
  }

  // Rows behind the last segment that a tensor may have are not copied where there is no room.
  static fi::PadArgs pad_args(const device::TensorArg& tensor, int head, int heads,
                              std::int64_t most_rows, void* to) {
    return {from_head(tensor, head), to, std::min<std::int64_t>(tensor.tokens, most_rows), heads};
  }

  static device::TensorArg dense(const fi::PadArgs& copy, int dim) {
    return {copy.to, std::int64_t{copy.heads} * dim, dim, static_cast<std::int32_t>(copy.rows)};
  }

  // One launch for each rule that may have units.
  static void start_rules(const Plan& plan, const device::TableShape& shape,
                          const device::AttentionArgs& args, fi::Launch launch) {
    const int rules = plan.tiles.num_rules;
    const fi::SchedulePointers all = fi::schedule_at(fi::schedule_layout(shape, rules), args.table);
    const fi::KernelSet kernels = kernels_of(plan.problem);
    // Where only the device knows the lengths, every unit may be any rule's: blocks of the others
    // leave at once.
    const bool counted = !plan.ceilings && plan.layouts.known();
    std::int64_t first = 0;
    for (int rule = 0; rule < rules; ++rule) {
      launch.tile_rows = plan.tiles.rules[rule].tile.variant;
      launch.units = args.units;
      launch.schedule = all;
      if (counted) {
        // Units of one rule lie together, in the order of the rules.
        launch.num_units = plan.rule_units[static_cast<std::size_t>(rule)];
        launch.schedule.requests += first;
        launch.schedule.valid = nullptr;
        first += launch.num_units;
      } else {
        launch.num_units = shape.max_units;
        launch.schedule.valid += rule * shape.max_units;
      }
      if (launch.num_units == 0) continue;
      check(kernels.launch(launch), "starting a kernel of flashinfer");
    }
  }
};

}  // namespace

const Backend& flashinfer_backend() {
  static const FlashInfer backend;
  return backend;
}

}  // namespace ragged
