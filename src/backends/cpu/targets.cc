#include "backends/cpu/targets.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

// Compiles this file once for every target. Left out: SSSE3, which wins nothing over the baseline's
// successor, and SVE, whose vectors have no size that a register tile could be made of (its
// machines run the NEON code).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/targets.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "backends/cpu/drive-inl.hpp"

#if HWY_ONCE
namespace ragged::cpu {
namespace {

#define RAGGED_TARGET(simd, name) \
  { simd, name::kLanes, &name::RunWorker }

struct Built {
  std::int64_t bit;  // of hwy::SupportedTargets()
  Target target;
};

// Widest first, as the bits of Highway rise. Names are those of DeviceFacts::simd.
constexpr Built kBuilt[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, RAGGED_TARGET("avx512", N_AVX3)},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, RAGGED_TARGET("avx2", N_AVX2)},
#endif
#if HWY_TARGETS & HWY_SSE4
    {HWY_SSE4, RAGGED_TARGET("sse4", N_SSE4)},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, RAGGED_TARGET("neon", N_NEON)},
#endif
#if HWY_TARGETS & HWY_EMU128
    {HWY_EMU128, RAGGED_TARGET("scalar", N_EMU128)},
#endif
};
#undef RAGGED_TARGET

// Narrow to wide over all families; a name is never compared with one of another family.
constexpr std::array<std::string_view, 7> kWidths = {"scalar", "sse4", "avx2", "avx512",
                                                     "amx",    "neon", "sve"};

std::ptrdiff_t width(std::string_view simd) {
  return std::find(kWidths.begin(), kWidths.end(), simd) - kWidths.begin();
}

struct Runnable {
  std::array<Target, std::size(kBuilt)> targets;
  std::size_t count = 0;
};

}  // namespace

std::span<const Target> runnable_targets() {
  static const Runnable runnable = [] {
    Runnable found;
    const std::int64_t supported = hwy::SupportedTargets();
    for (const Built& built : kBuilt) {
      if ((supported & built.bit) != 0) found.targets[found.count++] = built.target;
    }
    return found;
  }();
  return {runnable.targets.data(), runnable.count};
}

const Target& target_for(std::string_view simd) {
  const std::span<const Target> targets = runnable_targets();
  for (const Target& target : targets) {
    if (width(target.simd) <= width(simd)) return target;
  }
  return targets.back();
}

}  // namespace ragged::cpu
#endif
