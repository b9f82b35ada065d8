#include "bench_gpu.hpp"

#include <iostream>

#include "atomic_file.hpp"
#include "progress.hpp"

#if defined(RAGGED_HAS_GPU_BENCH)
#include "bench_gpu_report.hpp"
#include "measure_gpu.hpp"
#endif

namespace ragged::tools {
namespace {

void expect_present(const Device& device) {
  const DeviceFacts facts = DeviceFacts::of(device);
  if (facts.present) return;
  throw Error(ErrorCode::invalid_argument,
              "--device: " + to_string(device) + " is not here: " + facts.absence);
}

}  // namespace

#if defined(RAGGED_HAS_GPU_BENCH)

namespace {

// A row, or none where the case is left out; says why.
std::optional<GpuRow> bench_case(const GpuBench& bench, const Case& c, RaggedAttnBackend backend,
                                 const GpuSettings& settings, Progress& progress) {
  const auto left_out = [&](const std::string& why) {
    progress.clear();
    std::cout << c.name << ": left out: " << why << '\n';
    return std::nullopt;
  };
  try {
    return measure_gpu(c, bench.device.index, backend, settings, bench.most_gflop);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::out_of_range) throw;
    return left_out(error.what());
  }
}

}  // namespace

int bench_on_gpu(const GpuBench& bench) {
  expect_present(bench.device);
  if (!bench.json.empty()) expect_writable(bench.json);
  GpuSettings settings;
  if (bench.sustained_seconds) settings.sustained_seconds = *bench.sustained_seconds;
  std::vector<GpuRow> rows;
  bool right = true;
  std::cout << gpu_table_heading();
  {
    Progress progress(static_cast<int>(bench.cases.size() * bench.backends.size()));
    int done = 0;
    for (const Case& c : bench.cases) {
      for (const RaggedAttnBackend backend : bench.backends) {
        progress.show(done++, c.name);
        const auto row = bench_case(bench, c, backend, settings, progress);
        if (!row) continue;
        progress.clear();
        std::cout << gpu_table_line(*row) << std::flush;
        right = right && row->right();
        if (row->right()) rows.push_back(*row);
      }
    }
  }
  if (!bench.json.empty() && !rows.empty()) {
    write_file(bench.json,
               gpu_report_json(bench::gpu_environment(bench.device.index), settings, rows));
  }
  return right && !rows.empty() ? 0 : 1;
}

#else

int bench_on_gpu(const GpuBench& bench) {
  expect_present(bench.device);
  throw Error(ErrorCode::unsupported, "--device: this build measures on CPUs alone");
}

#endif

}  // namespace ragged::tools
