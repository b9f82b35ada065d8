// The probes for Python's ctypes. A private seam of bench/, not the library's C interface.

#include <string>

#include "bench/fma_probe.hpp"
#include "bench/machine.hpp"

#define RAGGED_BENCH_API extern "C" __attribute__((visibility("default")))

RAGGED_BENCH_API double ragged_bench_fma_peak_gflops(const char* simd, int threads,
                                                     double seconds) {
  return ragged::bench::fma_peak_gflops(simd, threads, seconds);
}

// The widest fp32 target; the text lives as long as the program.
RAGGED_BENCH_API const char* ragged_bench_best_fp32_simd() {
  return ragged::bench::best_fp32_simd().data();  // of a literal: ends with a zero
}

RAGGED_BENCH_API int ragged_bench_probe_supported(const char* simd) {
  return ragged::bench::probe_supported(simd) ? 1 : 0;
}

// Lives until the next call.
RAGGED_BENCH_API const char* ragged_bench_machine_json() {
  static std::string text;
  text = ragged::bench::machine_json();
  return text.c_str();
}
