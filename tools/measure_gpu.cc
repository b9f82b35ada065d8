#include "measure_gpu.hpp"

#include <algorithm>
#include <cmath>
#include <ragged/wrappers.hpp>
#include <variant>

#include "expected.hpp"
#include "timing.hpp"

namespace ragged::tools {
namespace {

constexpr double kFlopsPerUs = 783e6;
constexpr double kBytesPerUs = 4.21e6;
constexpr std::int64_t kCheckedRows = 24;
constexpr int kMostSets = 64;
constexpr int kLeastRuns = 4;  // of a graph
constexpr int kHostSamples = 25;
constexpr int kRunsAhead = 32;  // started before the host waits: far below a stream's queue

std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& lengths) {
  return offsets_from_lengths(lengths);
}

// cu_seqlens of a case, by argument.
struct StepOffsets {
  std::vector<std::int64_t> q;
  std::vector<std::int64_t> kv;
  std::vector<std::int64_t> prefix;
};

// Rows of k and v: a prefix in one source is joined with the fresh keys. Empty: those of q.
std::vector<std::int64_t> own_key_lengths(const Case& c) {
  const bool joined = c.problem.kind == AttentionKind::prefixed && !c.problem.two_sources;
  return joined ? c.key_lengths() : c.kv_lengths;
}

StepOffsets offsets_of(const Case& c) {
  return {begins_of(c.q_lengths), begins_of(own_key_lengths(c)), begins_of(c.prefix_lengths)};
}

// The wrapper of a case's kind.
class CaseWrapper {
 public:
  CaseWrapper(const Case& c, const WrapperOptions& options)
      : problem_(c.problem), wrapper_(make(c, options)) {}

  void plan(const StepOffsets& at, Stream stream) {
    if (auto* self = std::get_if<RaggedPrefillWrapper>(&wrapper_)) {
      self->plan(at.q, problem_.causal, stream);
    } else if (auto* cross = std::get_if<RaggedCrossPrefillWrapper>(&wrapper_)) {
      cross->plan(at.q, at.kv, stream);
    } else if (auto* block = std::get_if<RaggedBlockCausalWrapper>(&wrapper_)) {
      block->plan(at.q, stream);
    } else if (auto* prefixed = std::get_if<PrefixedPrefillWrapper>(&wrapper_)) {
      if (problem_.two_sources) {
        prefixed->plan_two_sources(at.q, at.prefix, problem_.causal, stream);
      } else {
        prefixed->plan(at.q, at.kv, problem_.causal, stream);
      }
    }
  }
  void run(const RunArguments& a) {
    if (auto* prefixed = std::get_if<PrefixedPrefillWrapper>(&wrapper_);
        prefixed != nullptr && problem_.two_sources) {
      prefixed->run_two_sources(a.q, a.prefix_k, a.prefix_v, a.k, a.v, a.out, a.lse, a.stream);
      return;
    }
    std::visit([&](auto& wrapper) { wrapper.run(a.q, a.k, a.v, a.out, a.lse, a.stream); },
               wrapper_);
  }
  [[nodiscard]] const WrapperBase& base() const {
    return std::visit([](const auto& wrapper) -> const WrapperBase& { return wrapper; }, wrapper_);
  }

 private:
  using Any = std::variant<RaggedPrefillWrapper, RaggedCrossPrefillWrapper, PrefixedPrefillWrapper,
                           RaggedBlockCausalWrapper>;
  static Any make(const Case& c, const WrapperOptions& options) {
    switch (c.problem.kind) {
      case AttentionKind::cross:
        return RaggedCrossPrefillWrapper(options);
      case AttentionKind::prefixed:
        return PrefixedPrefillWrapper(options);
      case AttentionKind::block_causal:
        return RaggedBlockCausalWrapper(options);
      case AttentionKind::self:
        break;
    }
    return RaggedPrefillWrapper(options);
  }

  Problem problem_;
  Any wrapper_;
};

WrapperOptions options_of(const Case& c, int index, RaggedAttnBackend backend) {
  WrapperOptions options;
  options.num_qo_heads = c.problem.num_qo_heads;
  options.num_kv_heads = c.problem.num_kv_heads;
  options.head_dim = c.problem.head_dim;
  options.device = {DeviceKind::cuda, index};
  options.sm_scale = c.problem.sm_scale;
  options.q_data_type = c.problem.dtype;
  options.backend = backend;
  options.block_size = c.problem.block_size;
  return options;
}

// The tensors of one set, dense.
class GpuSet {
 public:
  GpuSet(const Case& c, Device device, std::uint64_t seed) : c_(&c), device_(device) {
    const Problem& p = c.problem;
    const std::int64_t q_tokens = begins_of(c.q_lengths).back();
    const std::vector<std::int64_t> keys = own_key_lengths(c);
    const std::int64_t kv_tokens = keys.empty() ? q_tokens : begins_of(keys).back();
    const std::int64_t prefix_tokens = p.two_sources ? begins_of(c.prefix_lengths).back() : 0;
    arguments_.q = tensor(q_tokens, p.num_qo_heads, seed + 1);
    arguments_.k = tensor(kv_tokens, p.num_kv_heads, seed + 2);
    arguments_.v = tensor(kv_tokens, p.num_kv_heads, seed + 3);
    if (p.two_sources) {
      arguments_.prefix_k = tensor(prefix_tokens, p.num_kv_heads, seed + 4);
      arguments_.prefix_v = tensor(prefix_tokens, p.num_kv_heads, seed + 5);
    }
    arguments_.out = tensor(q_tokens, p.num_qo_heads, std::nullopt);
  }

  // No LSE: a peer has none, and ours is timed alike.
  [[nodiscard]] RunArguments arguments(void* stream) const {
    RunArguments a = arguments_;
    a.stream = {stream};
    return a;
  }

 private:
  TensorView tensor(std::int64_t tokens, int heads, std::optional<std::uint64_t> seed) {
    const Problem& p = c_->problem;
    const std::int64_t count = tokens * heads * p.head_dim;
    const auto bytes = static_cast<std::size_t>(count * size_bytes(p.dtype));
    buffers_.emplace_back(bytes);
    void* data = buffers_.back().data();
    if (seed) {
      bench::fill_normal(data, p.dtype, count, *seed);
    } else {
      bench::poison(data, bytes);
    }
    return TensorView::packed(data, p.dtype, tokens, heads, p.head_dim, device_);
  }

  const Case* c_;
  Device device_;
  std::vector<bench::GpuBuffer> buffers_;
  RunArguments arguments_;
};

// A checked row's keys, apart by source.
bench::RowSpan span_of(const Case& c, const StepOffsets& at, const RowKeys& keys) {
  if (!c.problem.two_sources) return {keys.row, 0, 0, keys.key_begin, keys.key_end};
  const auto i = static_cast<std::size_t>(keys.segment);
  const std::int64_t fresh = c.kv_lengths.empty() ? at.q[i] : at.kv[i];
  const std::int64_t joined = at.prefix[i] + fresh;  // where the segment begins in joined keys
  const std::int64_t prefix = c.prefix_lengths[i];
  const auto in_prefix = [&](std::int64_t key) {
    return at.prefix[i] + std::min(key - joined, prefix);
  };
  const auto in_fresh = [&](std::int64_t key) {
    return fresh + std::max(key - joined, prefix) - prefix;
  };
  return {keys.row, in_prefix(keys.key_begin), in_prefix(keys.key_end), in_fresh(keys.key_begin),
          in_fresh(keys.key_end)};
}

// The worst relative error of the sampled rows, each over all of its heads.
double worst_row(const Case& c, const StepOffsets& at, const RunArguments& a,
                 const GpuSettings& settings) {
  const Problem& p = c.problem;
  const std::vector<RowKeys> chosen =
      choose_rows(c, {CheckRows::Kind::some, kCheckedRows}, settings.seed);
  std::vector<bench::RowSpan> spans;
  for (const RowKeys& keys : chosen) spans.push_back(span_of(c, at, keys));
  const std::vector<double> want = bench::attention_rows(
      {p.dtype, p.num_qo_heads, p.num_kv_heads, p.head_dim, p.sm_scale}, a.q.data,
      {a.prefix_k.data, a.prefix_v.data}, {a.k.data, a.v.data}, spans);
  const std::int64_t width = std::int64_t{p.num_qo_heads} * p.head_dim;
  double worst = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::vector<float> got = bench::read_row(a.out.data, p.dtype, spans[i].row, width);
    double error = 0;
    double size = 0;
    for (std::size_t d = 0; d < got.size(); ++d) {
      const double right = want[i * got.size() + d];
      error += (static_cast<double>(got[d]) - right) * (static_cast<double>(got[d]) - right);
      size += right * right;
    }
    const double relative = size > 0 ? std::sqrt(error / size) : std::sqrt(error);
    // A NaN is as wrong as can be.
    worst = relative >= 0 ? std::max(worst, relative) : HUGE_VAL;
  }
  return worst;
}

// The case with one query row less: another layout for the planner.
Case shortened(Case c) {
  for (auto length = c.q_lengths.rbegin(); length != c.q_lengths.rend(); ++length) {
    if (*length > 1) {
      --*length;
      return c;
    }
  }
  if (!c.q_lengths.empty()) c.q_lengths.back() = 0;
  return c;
}

void measure_planning(const Case& c, CaseWrapper& wrapper, const bench::GpuTimer& timer,
                      GpuRow& row) {
  const Stream stream = {timer.stream()};
  const StepOffsets at = offsets_of(c);
  const StepOffsets other = offsets_of(shortened(c));
  std::vector<double> changed;
  std::vector<double> on_device;
  for (int i = 0; i < kHostSamples; ++i) {
    const StepOffsets& next = i % 2 == 0 ? other : at;
    timer.synchronize();
    changed.push_back(time_us([&] { wrapper.plan(next, stream); }));
  }
  for (int i = 0; i < kHostSamples; ++i) {
    const StepOffsets& next = i % 2 == 0 ? at : other;
    on_device.push_back(timer.time_us([&] { wrapper.plan(next, stream); }));
  }
  wrapper.plan(at, stream);
  timer.synchronize();
  constexpr int kTogether = 100;
  row.replan_us = time_us([&] {
                    for (int i = 0; i < kTogether; ++i) wrapper.plan(at, stream);
                  }) /
                  kTogether;
  row.plan_us = median(changed);
  row.plan_device_us = median(on_device);
}

void measure_starting(CaseWrapper& wrapper, const std::vector<RunArguments>& sets,
                      const bench::GpuTimer& timer, GpuRow& row) {
  // Not more ahead than the GPU works off in some 50 ms.
  const int ahead = std::clamp(static_cast<int>(50e3 / std::max(row.floor_us, 1.0)), 1, kRunsAhead);
  std::vector<double> times;
  std::size_t next = 0;
  for (int i = 0; i < kHostSamples && (i < 3 || row.floor_us * ahead * i < 200e3); ++i) {
    timer.synchronize();
    times.push_back(time_us([&] {
                      for (int n = 0; n < ahead; ++n) wrapper.run(sets[next++ % sets.size()]);
                    }) /
                    ahead);
  }
  timer.synchronize();
  row.host_us = median(times);
}

void measure_graph(CaseWrapper& wrapper, const std::vector<RunArguments>& sets,
                   bench::GpuTimer& timer, const GpuSettings& settings, int index, GpuRow& row) {
  const auto wanted =
      std::max<double>(kLeastRuns, settings.least_graph_us / std::max(row.floor_us, 0.1));
  const auto num_sets = static_cast<int>(sets.size());
  const int rounds = static_cast<int>(std::ceil(std::min(wanted, 256.0) / num_sets));
  row.runs_per_graph = rounds * num_sets;
  timer.capture([&] {
    for (int i = 0; i < row.runs_per_graph; ++i) {
      wrapper.run(sets[static_cast<std::size_t>(i % num_sets)]);
    }
  });
  std::vector<double> times;
  for (int i = 0; i < settings.bursts; ++i) {
    for (const double us : timer.burst_us(settings.idle_seconds)) {
      times.push_back(us / row.runs_per_graph);
    }
  }
  row.us = median(times);
  row.us_min = *std::min_element(times.begin(), times.end());
  row.us_max = *std::max_element(times.begin(), times.end());
  row.spread = spread(times);
  if (settings.sustained_seconds <= 0) return;
  row.sustained_us = median(timer.sustained_us(settings.sustained_seconds)) / row.runs_per_graph;
  row.sustained_sm_mhz = bench::sm_clock_mhz(index);
}

}  // namespace

double floor_us(double flops, double bytes) noexcept {
  return std::max(flops / kFlopsPerUs, bytes / kBytesPerUs);
}

double row_tolerance(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16:
      return 1e-2;
    case DType::fp16:
      return 1.5e-3;
    case DType::fp32:
      break;
  }
  return 1e-5;
}

GpuRow measure_gpu(const Case& c, int index, RaggedAttnBackend backend, const GpuSettings& settings,
                   double most_gflop) {
  bench::GpuTimer timer(index);
  CaseWrapper wrapper(c, options_of(c, index, backend));
  const StepOffsets at = offsets_of(c);
  wrapper.plan(at, {timer.stream()});
  const Plan& plan = wrapper.base().current_plan();
  const double flops = plan.flops();
  const double bytes = plan.bytes();
  if (most_gflop > 0 && flops > most_gflop * 1e9) {
    throw Error(ErrorCode::out_of_range, "above --most-gflop");
  }

  GpuRow row;
  row.workload = c.name;
  row.provider = "ragged/" + plan.backend_name;
  row.device = plan.device.to_string();
  row.dtype = c.problem.dtype;
  row.floor_us = floor_us(flops, bytes);
  row.goal = h200_goal(c.name);
  row.workspace_bytes = wrapper.base().workspace_bytes();
  row.tolerance = row_tolerance(row.dtype);
  row.input_sets = static_cast<int>(
      std::clamp(std::ceil(static_cast<double>(settings.rotate_bytes) / std::max(bytes, 1.0)), 2.0,
                 static_cast<double>(kMostSets)));

  std::vector<GpuSet> tensors;
  std::vector<RunArguments> sets;
  for (int i = 0; i < row.input_sets; ++i) {
    const auto seed = settings.seed + 10 * static_cast<std::uint64_t>(i);
    tensors.emplace_back(c, Device{DeviceKind::cuda, index}, seed);
    sets.push_back(tensors.back().arguments(timer.stream()));
  }
  wrapper.run(sets.front());
  timer.synchronize();
  row.relative_error = worst_row(c, at, sets.front(), settings);
  if (!row.right()) return row;  // the time of a wrong answer says nothing

  for (const RunArguments& set : sets) wrapper.run(set);
  measure_planning(c, wrapper, timer, row);
  measure_starting(wrapper, sets, timer, row);
  measure_graph(wrapper, sets, timer, settings, index, row);
  row.tflops = flops / row.us / 1e6;
  row.gbps = bytes / row.us / 1e3;
  return row;
}

}  // namespace ragged::tools
