// What a plan on a GPU costs: host time of make_plan and stage(), and the prologue's time on the
// device. Microseconds, median over samples.
//
//   ragged_prologue_bench [SEGMENTS...]    those alone, three samples each: for a profiler

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ragged/wrappers.hpp>

#include "backends/contract.hpp"
#include "device/block.hpp"
#include "device/stage.hpp"

namespace ragged::bench {
namespace {

constexpr Device kGpu = {DeviceKind::cuda, 0};

// Tiles much like those of our kernels; no kernel runs.
class Tiles final : public Backend {
 public:
  [[nodiscard]] RaggedAttnBackend id() const noexcept override { return RaggedAttnBackend::SM80; }
  [[nodiscard]] std::string declines(const Problem&, const DeviceFacts&) const override {
    return {};
  }
  [[nodiscard]] Tuning tune(const Problem&, const DeviceFacts&, const StepTotals&) const override {
    Tuning tuning;
    tuning.tiles.num_rules = 4;
    const std::int64_t most[] = {16, 64, 128};
    for (int i = 0; i < 4; ++i) {
      TileRule& rule = tuning.tiles.rules[i];
      if (i < 3) rule.max_q_length = most[i];
      rule.tile = {.q_rows = 16 << i, .kv_rows = 64, .unit_rows = 16 << i};
    }
    return tuning;
  }
  [[nodiscard]] bool plans_on_device() const noexcept override { return true; }
  void run(const Plan&, const RunArguments&) const override {}
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

void measure(const char* name, AttentionKind kind, std::int64_t segments, std::int64_t length,
             int samples = 200) {
  const device::Room& room = *device::room();
  StepLayouts layouts;
  // Lengths differ, so that nothing is guessed from a neighbour.
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < segments; ++i) lengths.push_back(1 + (i * 7919) % (2 * length));
  const std::vector<std::int64_t> offsets = offsets_from_lengths(lengths);
  layouts.q.assign_offsets(offsets, "q");
  layouts.kv_is_q = kind == AttentionKind::self;
  if (!layouts.kv_is_q) layouts.kv = layouts.q;
  Problem problem;
  problem.kind = kind;
  problem.num_qo_heads = problem.num_kv_heads = 16;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  static const Tiles tiles;
  const Backend* list[] = {&tiles};
  const DeviceFacts facts = room.facts(0);
  Plan plan;
  make_plan(plan, problem, layouts, facts, list);
  device::StepShape shape;
  shape.table = device::table_shape(plan.tiles, segments, layouts.q.total_tokens(), true, 0, 16);
  device::Block block(kGpu);
  block.make(device::table_layout(shape.table).bytes);
  StageArguments arguments;
  arguments.table = {block.data(), block.bytes()};
  const device::Event begin = room.make_event(kGpu, true);
  const device::Event end = room.make_event(kGpu, true);
  std::vector<double> plan_us, stage_us, device_us;
  for (int i = 0; i < samples; ++i) {
    using clock = std::chrono::steady_clock;
    const auto since = [](clock::time_point start) {
      return std::chrono::duration<double, std::micro>(clock::now() - start).count();
    };
    auto start = clock::now();
    layouts.q.assign_offsets(offsets, "q");
    make_plan(plan, problem, layouts, facts, list);
    plan_us.push_back(since(start));
    start = clock::now();
    device::stage_step(plan, arguments, shape);
    stage_us.push_back(since(start));
    room.synchronize(kGpu, {});
    // On the device: several behind one another, so that launching is hidden.
    constexpr int kRow = 8;
    room.record(kGpu, begin, {});
    for (int n = 0; n < kRow; ++n) device::stage_step(plan, arguments, shape);
    room.record(kGpu, end, {});
    device_us.push_back(room.elapsed_us(kGpu, begin, end) / kRow);
  }
  room.free_event(kGpu, begin);
  room.free_event(kGpu, end);
  std::printf("%-6s %8lld segments %9lld units  plan %7.2f us  stage %7.2f us  device %8.2f us\n",
              name, static_cast<long long>(segments), static_cast<long long>(plan.num_units),
              median(plan_us), median(stage_us), median(device_us));
}

// What a caller of a wrapper pays: a plan of another layout, the same one again, and a run.
void measure_wrapper(std::int64_t segments) {
  WrapperOptions options;
  options.num_qo_heads = options.num_kv_heads = 16;
  options.head_dim = 64;
  options.device = kGpu;
  options.facts = device::room()->facts(0);
  RaggedPrefillWrapper wrapper(options);
  std::vector<std::int64_t> offsets[2] = {{0}, {0}};
  for (std::int64_t i = 0; i < segments; ++i) {
    for (int n = 0; n < 2; ++n) offsets[n].push_back(offsets[n].back() + 1 + (i * 7919 + n) % 128);
  }
  const std::int64_t rows = std::max(offsets[0].back(), offsets[1].back());
  device::Block memory(kGpu);
  memory.make(static_cast<std::size_t>(rows) * 16 * 64 * 2);
  const TensorView view = TensorView::packed(memory.data(), DType::bf16, rows, 16, 64, kGpu);
  device::Block out(kGpu);
  out.make(memory.bytes());
  TensorView result = view;
  result.data = out.data();
  std::vector<double> changed_us, same_us, run_us;
  for (int i = 0; i < 200; ++i) {
    using clock = std::chrono::steady_clock;
    const auto time = [](auto&& action) {
      const auto start = clock::now();
      action();
      return std::chrono::duration<double, std::micro>(clock::now() - start).count();
    };
    changed_us.push_back(time([&] { wrapper.plan(offsets[i % 2]); }));
    same_us.push_back(time([&] { wrapper.plan(offsets[i % 2]); }));
    run_us.push_back(time([&] { wrapper.run(view, view, view, result); }));
    device::room()->synchronize(kGpu, {});
  }
  std::printf(
      "wrapper of %s, %lld segments: plan %.2f us, again %.2f us, run %.2f us of host time\n",
      wrapper.current_plan().backend_name.c_str(), static_cast<long long>(segments),
      median(changed_us), median(same_us), median(run_us));
}

}  // namespace
}  // namespace ragged::bench

int main(int argc, char** argv) {
  using ragged::AttentionKind;
  if (ragged::device::room() == nullptr || ragged::device::room()->num_devices() == 0) {
    std::printf("no GPU here\n");
    return 0;
  }
  ragged::device::prepare_stage();
  if (argc > 1) {
    for (int i = 1; i < argc; ++i) {
      ragged::bench::measure("self", AttentionKind::self, std::atoll(argv[i]), 64, 3);
    }
    return 0;
  }
  for (const std::int64_t segments : {1, 64, 256, 1024, 4096, 8192, 16384, 131072}) {
    ragged::bench::measure("self", AttentionKind::self, segments, 64);
  }
  for (const std::int64_t segments : {1, 64, 1024}) ragged::bench::measure_wrapper(segments);
  ragged::bench::measure("cross", AttentionKind::cross, 1024, 64);
  ragged::bench::measure("long", AttentionKind::self, 1, 131072);
  ragged::bench::measure("long", AttentionKind::self, 16, 16384);
  return 0;
}
