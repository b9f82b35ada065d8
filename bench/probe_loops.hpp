#pragma once

// The loops behind the probes, one list for the architecture that this is compiled for.

#include <cstdint>
#include <span>
#include <string_view>

namespace ragged::bench {

struct ProbeLoop {
  std::string_view simd;
  bool (*supported)();
  double fma_flops;                         // of one iteration of `fma`
  void (*fma)(std::int64_t iterations);     // registers only
  double kernel_flops;                      // of one iteration of `kernel`
  void (*kernel)(const float* l1_data,      // kProbeDataFloats floats, aligned to 64 bytes
                 std::int64_t iterations);  // null: none
};

// Both operands of a kernel loop, 64 steps deep: fits the first-level cache of every target.
inline constexpr std::int64_t kProbeDepth = 64;
inline constexpr std::int64_t kProbeDataFloats = kProbeDepth * (48 + 8);

// Narrowest first; of those supported, the last fp32 one is the widest.
std::span<const ProbeLoop> probe_loops();

}  // namespace ragged::bench
