#pragma once

// What the arithmetic units of this machine give at this moment. Every timed sample stands between
// two of these probes, so that its percentage is of what the machine could do just then, not of
// what it could do on a better day.

#include <cstdint>
#include <string_view>

namespace ragged::bench {

// SIMD targets are named as in DeviceFacts::simd: "scalar", "sse4", "avx2", "avx512", "amx",
// "neon". "amx" is the bf16 tile product; all others are fp32.

// True if this build has the loop and this machine (and its kernel) can run it.
bool probe_supported(std::string_view simd);

// The widest fp32 target that is supported: the one that "percent of peak" refers to.
std::string_view best_fp32_simd();

// GFLOP/s of independent multiply-adds on registers alone, the sum over `threads` threads, the
// caller's included. Takes about `seconds`. 0 if not supported.
double fma_peak_gflops(std::string_view simd, int threads, double seconds = 0.002);

// GFLOP/s of the shape that an attention kernel's inner loop has, on data in L1: one block of rows
// in registers, loads and broadcasts beside the multiply-adds. The second limit, below the peak
// where the front end or the load ports are the bottleneck. 0 if there is no such loop.
double kernel_loop_gflops(std::string_view simd, int threads, double seconds = 0.002);

}  // namespace ragged::bench
