// Probe loops of the 64-bit Arm targets. Longer vectors (SVE) have no loop: there the NEON peak is
// what percentages refer to.

#if defined(__aarch64__)

#include <arm_neon.h>

#include "bench/probe_loops.hpp"

namespace ragged::bench {
namespace {

bool always() { return true; }

// Keeps a value in a register and hides it from the optimizer.
inline void keep(float32x4_t& value) { asm volatile("" : "+w"(value)); }

// Twenty-four accumulators: four pipes of four cycles, with room left.
void fma_neon(std::int64_t iterations) {
  float32x4_t sums[24];
  float32x4_t one = vdupq_n_f32(1.0F);
  for (auto& sum : sums) sum = vdupq_n_f32(0.0F);
  for (; iterations > 0; --iterations) {
    keep(one);
#pragma GCC unroll 24
    for (auto& sum : sums) sum = vfmaq_f32(sum, one, one);
  }
  for (auto& sum : sums) keep(sum);
}

// 8 keys x 12 rows: 5 loads beside 24 multiply-adds, the key's value taken from a lane.
void kernel_neon(const float* l1_data, std::int64_t iterations) {
  for (; iterations > 0; --iterations) {
    const float* rows = l1_data;
    const float* keys = l1_data + kProbeDepth * 12;
    float32x4_t sums[24];
    for (auto& sum : sums) sum = vdupq_n_f32(0.0F);
    for (std::int64_t step = 0; step < kProbeDepth; ++step, rows += 12, keys += 8) {
      const float32x4_t r[3] = {vld1q_f32(rows), vld1q_f32(rows + 4), vld1q_f32(rows + 8)};
      const float32x4_t low = vld1q_f32(keys), high = vld1q_f32(keys + 4);
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
        sums[i] = vfmaq_laneq_f32(sums[i], r[i], low, 0);
        sums[3 + i] = vfmaq_laneq_f32(sums[3 + i], r[i], low, 1);
        sums[6 + i] = vfmaq_laneq_f32(sums[6 + i], r[i], low, 2);
        sums[9 + i] = vfmaq_laneq_f32(sums[9 + i], r[i], low, 3);
        sums[12 + i] = vfmaq_laneq_f32(sums[12 + i], r[i], high, 0);
        sums[15 + i] = vfmaq_laneq_f32(sums[15 + i], r[i], high, 1);
        sums[18 + i] = vfmaq_laneq_f32(sums[18 + i], r[i], high, 2);
        sums[21 + i] = vfmaq_laneq_f32(sums[21 + i], r[i], high, 3);
      }
    }
    for (auto& sum : sums) keep(sum);
  }
}

constexpr ProbeLoop kLoops[] = {
    {"neon", always, 24 * 4 * 2, fma_neon, 2.0 * kProbeDepth * 8 * 12, kernel_neon},
};

}  // namespace

std::span<const ProbeLoop> probe_loops() { return kLoops; }

}  // namespace ragged::bench

#endif
