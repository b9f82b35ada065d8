// Probe loops of the 64-bit Arm targets, in assembly as those of x86: compilers keep arrays of
// accumulators in memory beside the registers. Longer vectors (SVE) have no loop: there the NEON
// peak is what percentages refer to.

#if defined(__aarch64__)

#include "bench/probe_loops.hpp"

namespace ragged::bench {
namespace {

bool always() { return true; }

// Twenty-four accumulators, v8 to v31: four pipes of four cycles, with room left.
#define RAGGED_8(OP, A, B, C, D, E, F, G, H) OP(A) OP(B) OP(C) OP(D) OP(E) OP(F) OP(G) OP(H)
#define RAGGED_ACCUMULATORS(OP)                \
  RAGGED_8(OP, 8, 9, 10, 11, 12, 13, 14, 15)   \
  RAGGED_8(OP, 16, 17, 18, 19, 20, 21, 22, 23) \
  RAGGED_8(OP, 24, 25, 26, 27, 28, 29, 30, 31)
#define RAGGED_CLOBBERS                                                                          \
  "v0", "v1", "v2", "v3", "v4", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",     \
      "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", \
      "v30", "v31"
#define RAGGED_ZERO(I) "movi v" #I ".4s, #0\n"
#define RAGGED_FMLA(I) "fmla v" #I ".4s, v0.4s, v0.4s\n"

void fma_neon(std::int64_t iterations) {
  asm volatile("fmov v0.4s, #1.0\n" RAGGED_ACCUMULATORS(RAGGED_ZERO) "1:\n" RAGGED_ACCUMULATORS(
                   RAGGED_FMLA) "subs %0, %0, #1\n b.ne 1b\n"
               : "+r"(iterations)
               :
               : RAGGED_CLOBBERS, "cc");
}

// 8 keys x 12 rows: 5 loads beside 24 multiply-adds, the key's value taken from a lane.
#define RAGGED_KEY(A, B, C, LANE) \
  "fmla v" A ".4s, v0.4s, " LANE  \
  "\n"                            \
  "fmla v" B ".4s, v1.4s, " LANE  \
  "\n"                            \
  "fmla v" C ".4s, v2.4s, " LANE "\n"

void kernel_neon(const float* l1_data, std::int64_t iterations) {
  for (; iterations > 0; --iterations) {
    const float* rows = l1_data;
    const float* keys = l1_data + kProbeDepth * 12;
    std::int64_t steps = kProbeDepth;
    asm volatile(
        RAGGED_ACCUMULATORS(RAGGED_ZERO) "1:\n"
        "ldp q0, q1, [%[rows]]\n ldr q2, [%[rows], #32]\n ldp q3, q4, [%[keys]], #32\n"
        RAGGED_KEY("8", "9", "10", "v3.s[0]")
        RAGGED_KEY("11", "12", "13", "v3.s[1]")
        RAGGED_KEY("14", "15", "16", "v3.s[2]")
        RAGGED_KEY("17", "18", "19", "v3.s[3]")
        RAGGED_KEY("20", "21", "22", "v4.s[0]")
        RAGGED_KEY("23", "24", "25", "v4.s[1]")
        RAGGED_KEY("26", "27", "28", "v4.s[2]")
        RAGGED_KEY("29", "30", "31", "v4.s[3]")
        "add %[rows], %[rows], #48\n subs %[steps], %[steps], #1\n b.ne 1b\n"
        : [rows] "+r"(rows), [keys] "+r"(keys), [steps] "+r"(steps)
        :
        : RAGGED_CLOBBERS, "cc", "memory");
  }
}

constexpr ProbeLoop kLoops[] = {
    {"neon", always, 24 * 4 * 2, fma_neon, 2.0 * kProbeDepth * 8 * 12, kernel_neon},
};

}  // namespace

std::span<const ProbeLoop> probe_loops() { return kLoops; }

}  // namespace ragged::bench

#endif
