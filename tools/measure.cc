#include "measure.hpp"

#include <algorithm>
#include <cmath>

#include "bench/fma_probe.hpp"
#include "error_report.hpp"
#include "execution.hpp"
#include "timing.hpp"

namespace ragged::tools {
namespace {

constexpr double kLeastSampleUs = 2000.0;  // shorter runs are repeated within a sample
constexpr std::int64_t kMostSets = 64;
constexpr std::int64_t kCheckedRows = 24;

struct Set {
  Inputs inputs;
  Result result;
};

// Sets with the same values at addresses of their own.
std::vector<Set> make_sets(const Case& c, const Plan& plan, const MeasureSettings& settings) {
  std::vector<Set> sets;
  sets.push_back({generate(c, settings.seed), poisoned_result(c)});
  const auto bytes = static_cast<std::int64_t>(plan.bytes());
  const std::int64_t wanted = bytes > 0 ? (settings.rotate_bytes + bytes - 1) / bytes : 1;
  for (std::int64_t i = 1; i < std::min(wanted, kMostSets); ++i) {
    const Inputs& in = sets.front().inputs;
    sets.push_back(
        {{in.q.clone(), in.k.clone(), in.v.clone(), in.prefix_k.clone(), in.prefix_v.clone()},
         poisoned_result(c)});
  }
  return sets;
}

// Tensors of one set. No LSE: a peer has none, and ours is timed alike.
RunArguments arguments_of(const Plan& plan, const Set& set, const AlignedBytes& workspace) {
  RunArguments arguments = arguments_for(plan, set.inputs, set.result.out);
  arguments.workspace = {workspace.data(), workspace.size()};
  return arguments;
}

void check(const Case& c, const Set& set, const MeasureSettings& settings, BenchRow& row) {
  const WideInputs wide = widen(c, set.inputs);
  const Expected expected =
      reference_rows(c, wide, choose_rows(c, {CheckRows::Kind::some, kCheckedRows}, settings.seed));
  row.tolerance = tolerance_for(c.problem.dtype, plain_error(c, wide, expected.rows)).out;
  row.max_error = worst_out(expected, set.result.out).error;
}

// The target whose fp32 multiply-adds percentages refer to: the plan's own, or the widest where
// that is none (tiles of bf16).
std::string probe_of(const DeviceFacts& facts) {
  if (facts.simd == "amx" || !bench::probe_supported(facts.simd)) {
    return std::string(bench::best_fp32_simd());
  }
  return facts.simd;
}

}  // namespace

BenchRow measure(const Case& c, const Plan& plan, const Provider& provider,
                 const MeasureSettings& settings) {
  BenchRow row;
  row.workload = c.name;
  row.provider = provider.name;
  row.version = provider.version;
  row.device = plan.device.to_string();
  row.probe_simd = probe_of(plan.device);
  row.dtype = c.problem.dtype;
  row.threads = plan.device.threads;

  const std::vector<Set> sets = make_sets(c, plan, settings);
  row.input_sets = static_cast<int>(sets.size());
  const AlignedBytes workspace(plan.workspace_bytes);
  std::vector<RunArguments> arguments;
  for (const Set& set : sets) arguments.push_back(arguments_of(plan, set, workspace));

  provider.run(arguments.front());
  check(c, sets.front(), settings, row);
  if (!row.right()) return row;  // the time of a wrong answer says nothing

  std::size_t next = 0;
  const auto run_next = [&] {
    next = (next + 1) % arguments.size();
    provider.run(arguments[next]);
  };
  // The first runs also touch the pages of every set for the first time.
  const double first_us = time_us(run_next);
  for (std::size_t i = 1; i < arguments.size(); ++i) run_next();
  row.runs_per_sample = std::max(1, static_cast<int>(std::ceil(kLeastSampleUs / first_us)));

  std::vector<double> times;
  std::vector<double> peaks;
  std::vector<double> percents;
  const double flops = plan.flops();
  double total_us = 0;
  while (static_cast<int>(times.size()) < settings.max_samples &&
         (times.size() < 3 || total_us < settings.seconds * 1e6)) {
    const double before = bench::fma_peak_gflops(row.probe_simd, row.threads);
    const double us = time_us([&] {
                        for (int i = 0; i < row.runs_per_sample; ++i) run_next();
                      }) /
                      row.runs_per_sample;
    const double peak = (before + bench::fma_peak_gflops(row.probe_simd, row.threads)) / 2;
    times.push_back(us);
    peaks.push_back(peak);
    percents.push_back(peak > 0 ? 100.0 * flops / us / 1e3 / peak : 0.0);
    total_us += us * row.runs_per_sample;
  }
  row.samples = static_cast<int>(times.size());
  row.us = median(times);
  row.us_min = *std::min_element(times.begin(), times.end());
  row.us_max = *std::max_element(times.begin(), times.end());
  row.spread = spread(times);
  row.gflops = flops / row.us / 1e3;
  row.peak_gflops = median(peaks);
  row.percent_of_peak = median(percents);
  row.gbps = plan.bytes() / row.us / 1e3;
  return row;
}

}  // namespace ragged::tools
