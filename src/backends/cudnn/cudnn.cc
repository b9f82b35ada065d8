#include "backends/cudnn/cudnn.hpp"

#include "backends/cudnn/arrays.hpp"
#include "backends/cudnn/graphs.hpp"
#include "backends/cudnn/library.hpp"
#include "backends/cudnn/shape.hpp"
#include "device/arguments.hpp"
#include "device/current_device.cuh"
#include "device/declines.hpp"
#include "device/stage.hpp"

namespace ragged {
namespace {

StepTotals totals_of(const Plan& plan) {
  return totals_of(plan.problem, plan.layouts, plan.ceilings);
}

device::TableShape table_of(const Problem& problem, const StepTotals& totals) {
  return device::table_shape(cudnn::tiles(), totals.num_segments, totals.total_tokens,
                             totals.bounded, 0, problem.num_qo_heads);
}

cudnn::Pointers pointers_of(const cudnn::Memory& memory, const device::AttentionArgs& args) {
  auto* const base = static_cast<std::byte*>(args.workspace);
  const auto offsets = [&](int i) {
    return reinterpret_cast<std::int64_t*>(base + memory.offsets_at[i]);
  };
  cudnn::Pointers p;
  p.q = args.q.data;
  p.k = args.k.data;
  p.v = args.v.data;
  p.out = args.out.data;
  p.lse = args.lse.data;
  p.arrays.segments = memory.segments;
  p.arrays.q_offsets = offsets(0);
  p.arrays.k_offsets = offsets(1);
  p.arrays.v_offsets = offsets(2);
  p.arrays.out_offsets = offsets(3);
  p.arrays.lse_offsets = offsets(4);
  p.arrays.q_lengths = reinterpret_cast<std::int32_t*>(base + memory.q_lengths_at);
  p.arrays.kv_lengths = reinterpret_cast<std::int32_t*>(base + memory.kv_lengths_at);
  p.workspace = base + memory.graph_at;
  return p;
}

class Cudnn final : public Backend {
 public:
  [[nodiscard]] RaggedAttnBackend id() const noexcept override { return RaggedAttnBackend::CUDNN; }

  [[nodiscard]] std::string declines(const Problem& problem,
                                     const DeviceFacts& device) const override {
    // Other chips have other kernels, of which it is not known what they read beyond a segment.
    std::string reason = device::declines_device(device, 90, 90);
    if (reason.empty()) reason = cudnn::declines(problem);
    // A machine that is only named may have it.
    if (reason.empty() && device.present) reason = cudnn::library().absence;
    return reason;
  }

  [[nodiscard]] Tuning tune(const Problem& problem, const DeviceFacts& device,
                            const StepTotals& totals) const override {
    const std::string reason = cudnn::declines_totals(totals);
    if (!reason.empty()) {
      throw Error(ErrorCode::unsupported, "backend cudnn declines: " + reason);
    }
    Tuning tuning;
    tuning.tiles = cudnn::tiles();
    tuning.workspace_bytes = cudnn::memory_of(totals, device.sm_count).bytes;
    tuning.table_bytes = device::table_layout(table_of(problem, totals)).bytes;
    return tuning;
  }

  [[nodiscard]] bool plans_on_device() const noexcept override { return true; }

  void prepare(const Plan& plan) const override {
    const device::CurrentDevice current(plan.device.device.index);
    device::prepare_stage();
    check(cudnn::prepare_arrays(), "loading a kernel of cudnn");
    // In capacity mode every step has this graph, unless its tensors have other strides.
    const StepTotals totals = totals_of(plan);
    cudnn::build_graph(cudnn::packed_key(plan.problem, totals, plan.device.device.index),
                       cudnn::memory_of(totals, plan.device.sm_count).graph_bytes);
  }

  void stage(const Plan& plan, const StageArguments& arguments) const override {
    device::StepShape shape;
    shape.table = table_of(plan.problem, totals_of(plan));
    device::stage_step(plan, arguments, shape);
  }

  [[nodiscard]] std::string declines_tensors(const Plan& plan,
                                             const RunArguments& arguments) const override {
    return cudnn::declines_tensors(device::attention_args(plan, arguments));
  }

  void run(const Plan& plan, const RunArguments& arguments) const override {
    const int index = plan.device.device.index;
    const device::CurrentDevice current(index);
    const StepTotals totals = totals_of(plan);
    const cudnn::Memory memory = cudnn::memory_of(totals, plan.device.sm_count);
    const device::AttentionArgs args = device::attention_args(plan, arguments);
    const cudnn::Pointers pointers = pointers_of(memory, args);
    check(cudnn::launch_arrays(pointers.arrays, args, arguments.stream.handle),
          "starting a kernel of cudnn");
    // Without keys, or without rows, nothing is left to do.
    if (args.q.tokens == 0 || args.k.tokens == 0) return;
    cudnn::run_graph(cudnn::graph_key(plan.problem, totals, index, args), pointers,
                     memory.graph_bytes, arguments.stream.handle);
  }

 private:
  static void check(int status, const char* what) {
    device::check(static_cast<cudaError_t>(status), what);
  }
};

}  // namespace

const Backend& cudnn_backend() {
  static const Cudnn backend;
  return backend;
}

}  // namespace ragged
