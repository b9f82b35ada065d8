#include "bench/fma_probe.hpp"

#include <algorithm>

#include "bench/parallel_rate.hpp"
#include "bench/probe_loops.hpp"

namespace ragged::bench {
namespace {

// Flops of one slice: 15 to 60 microseconds on current cores, so that reading the clock costs
// nothing and a probe still ends on time.
constexpr double kSliceFlops = 3e6;

const ProbeLoop* find(std::string_view simd) {
  for (const ProbeLoop& loop : probe_loops()) {
    if (loop.simd == simd && loop.supported()) return &loop;
  }
  return nullptr;
}

// Iterations of one slice; tile products do several times more at once.
std::int64_t slice_iterations(const ProbeLoop& loop, double flops_per_iteration) {
  const double slice = loop.simd == "amx" ? 8 * kSliceFlops : kSliceFlops;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(slice / flops_per_iteration));
}

struct alignas(64) ProbeData {
  float values[kProbeDataFloats] = {};
};

}  // namespace

bool probe_supported(std::string_view simd) { return find(simd) != nullptr; }

std::string_view best_fp32_simd() {
  std::string_view best = "";
  for (const ProbeLoop& loop : probe_loops()) {
    if (loop.simd != "amx" && loop.supported()) best = loop.simd;
  }
  return best;
}

double fma_peak_gflops(std::string_view simd, int threads, double seconds) {
  const ProbeLoop* loop = find(simd);
  if (loop == nullptr || threads < 1) return 0.0;
  const std::int64_t iterations = slice_iterations(*loop, loop->fma_flops);
  const double flops = static_cast<double>(iterations) * loop->fma_flops;
  return 1e-9 * parallel_rate(threads, seconds, [&](int) {
           loop->fma(iterations);
           return flops;
         });
}

double kernel_loop_gflops(std::string_view simd, int threads, double seconds) {
  const ProbeLoop* loop = find(simd);
  if (loop == nullptr || loop->kernel == nullptr || threads < 1) return 0.0;
  const std::int64_t iterations = slice_iterations(*loop, loop->kernel_flops);
  const double flops = static_cast<double>(iterations) * loop->kernel_flops;
  std::vector<ProbeData> data(static_cast<std::size_t>(threads));
  return 1e-9 * parallel_rate(threads, seconds, [&](int worker) {
           loop->kernel(data[static_cast<std::size_t>(worker)].values, iterations);
           return flops;
         });
}

}  // namespace ragged::bench
