// Probe loops in assembly: a compiler would fold, spill or reorder what is to be measured.

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/probe_loops.hpp"

namespace ragged::bench {
namespace {

constexpr float kOne = 1.0F;

bool always() { return true; }
bool has_sse4() { return __builtin_cpu_supports("sse4.1") != 0; }
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}
bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0; }

// Tile registers need the processor's word and, once in a process, the kernel's.
bool has_amx() {
  static const bool granted = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return granted;
}

// Lists of registers. Twelve accumulators hide four cycles of latency on two pipes with room left.
#define RAGGED_12(OP) OP(0) OP(1) OP(2) OP(3) OP(4) OP(5) OP(6) OP(7) OP(8) OP(9) OP(10) OP(11)
#define RAGGED_24(OP) \
  RAGGED_12(OP)       \
  OP(12) OP(13) OP(14) OP(15) OP(16) OP(17) OP(18) OP(19) OP(20) OP(21) OP(22) OP(23)
#define RAGGED_XMM_CLOBBERS                                                                \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define RAGGED_ZMM_CLOBBERS                                                                    \
  RAGGED_XMM_CLOBBERS, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
      "xmm24", "xmm25", "xmm26", "xmm27"

// Without FMA the peak is one multiply and one addition side by side: six chains of each.
#define RAGGED_MUL_ADD(SUFFIX)                 \
  "mul" SUFFIX " %%xmm12, %%xmm0\n add" SUFFIX \
  " %%xmm12, %%xmm6\n"                         \
  "mul" SUFFIX " %%xmm12, %%xmm1\n add" SUFFIX \
  " %%xmm12, %%xmm7\n"                         \
  "mul" SUFFIX " %%xmm12, %%xmm2\n add" SUFFIX \
  " %%xmm12, %%xmm8\n"                         \
  "mul" SUFFIX " %%xmm12, %%xmm3\n add" SUFFIX \
  " %%xmm12, %%xmm9\n"                         \
  "mul" SUFFIX " %%xmm12, %%xmm4\n add" SUFFIX \
  " %%xmm12, %%xmm10\n"                        \
  "mul" SUFFIX " %%xmm12, %%xmm5\n add" SUFFIX " %%xmm12, %%xmm11\n"
#define RAGGED_COPY_12(I) "movaps %%xmm12, %%xmm" #I "\n"
#define RAGGED_LEGACY_LOOP(SUFFIX)                                                   \
  asm volatile("movss %1, %%xmm12\n shufps $0, %%xmm12, %%xmm12\n" RAGGED_12(        \
                   RAGGED_COPY_12) "1:\n" RAGGED_MUL_ADD(SUFFIX) "dec %0\n jnz 1b\n" \
               : "+r"(iterations)                                                    \
               : "m"(kOne)                                                           \
               : RAGGED_XMM_CLOBBERS, "cc")

void fma_scalar(std::int64_t iterations) { RAGGED_LEGACY_LOOP("ss"); }
void fma_sse4(std::int64_t iterations) { RAGGED_LEGACY_LOOP("ps"); }

#define RAGGED_ZERO_YMM(I) "vxorps %%xmm" #I ", %%xmm" #I ", %%xmm" #I "\n"
#define RAGGED_FMA_YMM(I) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" #I "\n"
__attribute__((target("avx2,fma"))) void fma_avx2(std::int64_t iterations) {
  asm volatile("vbroadcastss %1, %%ymm12\n" RAGGED_12(RAGGED_ZERO_YMM) "1:\n" RAGGED_12(
                   RAGGED_FMA_YMM) "dec %0\n jnz 1b\n vzeroupper\n"
               : "+r"(iterations)
               : "m"(kOne)
               : RAGGED_XMM_CLOBBERS, "cc");
}

// 4 keys x 24 rows: 3 loads and 4 broadcasts beside 12 multiply-adds.
#define RAGGED_KEY_YMM(OFFSET, A, B, C)   \
  "vbroadcastss " OFFSET                  \
  "(%[keys]), %%ymm15\n"                  \
  "vfmadd231ps %%ymm12, %%ymm15, %%ymm" A \
  "\n"                                    \
  "vfmadd231ps %%ymm13, %%ymm15, %%ymm" B \
  "\n"                                    \
  "vfmadd231ps %%ymm14, %%ymm15, %%ymm" C "\n"
#define RAGGED_STEP_YMM(Q0, Q1, Q2, K0, K1, K2, K3)                       \
  "vmovups " Q0                                                           \
  "(%[rows]), %%ymm12\n"                                                  \
  "vmovups " Q1                                                           \
  "(%[rows]), %%ymm13\n"                                                  \
  "vmovups " Q2 "(%[rows]), %%ymm14\n" RAGGED_KEY_YMM(K0, "0", "1", "2")  \
      RAGGED_KEY_YMM(K1, "3", "4", "5") RAGGED_KEY_YMM(K2, "6", "7", "8") \
          RAGGED_KEY_YMM(K3, "9", "10", "11")
__attribute__((target("avx2,fma"))) void kernel_avx2(const float* l1_data,
                                                     std::int64_t iterations) {
  for (; iterations > 0; --iterations) {
    const float* rows = l1_data;
    const float* keys = l1_data + kProbeDepth * 24;
    std::int64_t steps = kProbeDepth / 4;
    asm volatile(
        RAGGED_12(RAGGED_ZERO_YMM) "1:\n" RAGGED_STEP_YMM(
            "0", "32", "64", "0", "4", "8", "12") RAGGED_STEP_YMM("96", "128", "160", "16", "20",
                                                                  "24", "28")
            RAGGED_STEP_YMM("192", "224", "256", "32", "36", "40", "44") RAGGED_STEP_YMM(
                "288", "320", "352", "48", "52", "56",
                "60") "add $384, %[rows]\n add $64, %[keys]\n dec %[steps]\n jnz 1b\n vzeroupper\n"
        : [rows] "+r"(rows), [keys] "+r"(keys), [steps] "+r"(steps)
        :
        : RAGGED_XMM_CLOBBERS, "cc", "memory");
  }
}

#define RAGGED_ZERO_ZMM(I) "vpxord %%zmm" #I ", %%zmm" #I ", %%zmm" #I "\n"
#define RAGGED_FMA_ZMM(I) "vfmadd231ps %%zmm24, %%zmm24, %%zmm" #I "\n"
__attribute__((target("avx512f"))) void fma_avx512(std::int64_t iterations) {
  asm volatile("vbroadcastss %1, %%zmm24\n" RAGGED_24(RAGGED_ZERO_ZMM) "1:\n" RAGGED_24(
                   RAGGED_FMA_ZMM) "dec %0\n jnz 1b\n vzeroupper\n"
               : "+r"(iterations)
               : "m"(kOne)
               : RAGGED_ZMM_CLOBBERS, "cc");
}

// 8 keys x 48 rows: 3 loads and 8 broadcasts beside 24 multiply-adds.
#define RAGGED_KEY_ZMM(OFFSET, A, B, C)   \
  "vbroadcastss " OFFSET                  \
  "(%[keys]), %%zmm27\n"                  \
  "vfmadd231ps %%zmm24, %%zmm27, %%zmm" A \
  "\n"                                    \
  "vfmadd231ps %%zmm25, %%zmm27, %%zmm" B \
  "\n"                                    \
  "vfmadd231ps %%zmm26, %%zmm27, %%zmm" C "\n"
__attribute__((target("avx512f"))) void kernel_avx512(const float* l1_data,
                                                      std::int64_t iterations) {
  for (; iterations > 0; --iterations) {
    const float* rows = l1_data;
    const float* keys = l1_data + kProbeDepth * 48;
    std::int64_t steps = kProbeDepth;
    asm volatile(
        RAGGED_24(RAGGED_ZERO_ZMM) "1:\n"
        "vmovups (%[rows]), %%zmm24\n vmovups 64(%[rows]), %%zmm25\n"
        "vmovups 128(%[rows]), %%zmm26\n"
        RAGGED_KEY_ZMM("0", "0", "1", "2")
        RAGGED_KEY_ZMM("4", "3", "4", "5")
        RAGGED_KEY_ZMM("8", "6", "7", "8")
        RAGGED_KEY_ZMM("12", "9", "10", "11")
        RAGGED_KEY_ZMM("16", "12", "13", "14")
        RAGGED_KEY_ZMM("20", "15", "16", "17")
        RAGGED_KEY_ZMM("24", "18", "19", "20")
        RAGGED_KEY_ZMM("28", "21", "22", "23")
        "add $192, %[rows]\n add $32, %[keys]\n dec %[steps]\n jnz 1b\n vzeroupper\n"
        : [rows] "+r"(rows), [keys] "+r"(keys), [steps] "+r"(steps)
        :
        : RAGGED_ZMM_CLOBBERS, "cc", "memory");
  }
}

// Every tile 16 rows of 64 bytes. Tiles 0..3 accumulate, 4 and 5 hold A, 6 and 7 hold B.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig kTiles = {};
constexpr double kTileFlops = 2.0 * 16 * 16 * 32;  // C[16][16] += A[16][32] x B[32][16]

#define RAGGED_TILE_PRODUCTS                                              \
  "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n" \
  "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n"
#define RAGGED_TILE_ZEROS "tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n"

__attribute__((target("amx-tile,amx-bf16"))) void fma_amx(std::int64_t iterations) {
  asm volatile("ldtilecfg %1\n" RAGGED_TILE_ZEROS
               "tilezero %%tmm4\n tilezero %%tmm5\n tilezero %%tmm6\n tilezero %%tmm7\n"
               "1:\n" RAGGED_TILE_PRODUCTS "dec %0\n jnz 1b\n tilerelease\n"
               : "+r"(iterations)
               : "m"(kTiles)
               : "cc");
}

// 2 x 2 tiles: two loads of A and two of B beside four products.
constexpr std::int64_t kTileBytes = 1024;
__attribute__((target("amx-tile,amx-bf16"))) void kernel_amx(const float* l1_data,
                                                             std::int64_t iterations) {
  static_assert(4 * kTileBytes <= kProbeDataFloats * 4);
  const std::int64_t row_bytes = 64;
  asm volatile("ldtilecfg %1\n" RAGGED_TILE_ZEROS
               "1:\n"
               "tileloadd (%[data],%[row],1), %%tmm4\n tileloadd 1024(%[data],%[row],1), %%tmm6\n"
               "tileloadd 2048(%[data],%[row],1), %%tmm7\n"
               "tileloadd 3072(%[data],%[row],1), %%tmm5\n" RAGGED_TILE_PRODUCTS
               "dec %0\n jnz 1b\n tilerelease\n"
               : "+r"(iterations)
               : "m"(kTiles), [data] "r"(l1_data), [row] "r"(row_bytes)
               : "cc", "memory");
}

constexpr double kKernel = 2.0 * kProbeDepth;
constexpr ProbeLoop kLoops[] = {
    {"scalar", always, 12, fma_scalar, 0, nullptr},
    {"sse4", has_sse4, 12 * 4, fma_sse4, 0, nullptr},
    {"avx2", has_avx2, 12 * 8 * 2, fma_avx2, kKernel * 4 * 24, kernel_avx2},
    {"avx512", has_avx512, 24 * 16 * 2, fma_avx512, kKernel * 8 * 48, kernel_avx512},
    {"amx", has_amx, 4 * kTileFlops, fma_amx, 4 * kTileFlops, kernel_amx},
};

}  // namespace

std::span<const ProbeLoop> probe_loops() { return kLoops; }

}  // namespace ragged::bench

#endif
