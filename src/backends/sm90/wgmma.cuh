#pragma once

// Warpgroup products: 64 rows times N columns, contracted over 16. A warpgroup's four warps own 16
// rows each; in a warp, lane l holds rows l / 4 and l / 4 + 8 and, of each 8 columns, the two from
// 2 * (l % 4): register 4 * i + r of a [64, N] block is column 8 * i + 2 * (l % 4) + r % 2 of row
// l / 4 + 8 * (r / 2).
//
//   Scores<N>::start, add   d (+)= A B^T   A [64, 16] and B [N, 16] in shared memory, 16 contiguous
//   Values<N>::add          d += A B       A [64, 16] in registers, B [16, N] in shared memory, N
//                                          contiguous
//
// Products run on their own after they are issued: issue between products_begin() and
// products_end(), and touch no operand before products_wait().

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace ragged::sm90 {

__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_end() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending of the groups that products_end() closed are still running.
template <int kPending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The compiler keeps these registers' readers and writers on their side of this line.
template <class R, int N>
__device__ __forceinline__ void hold(R (&registers)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (std::is_same_v<R, float>) {
      asm volatile("" : "+f"(registers[i])::"memory");
    } else {
      asm volatile("" : "+r"(registers[i])::"memory");
    }
  }
}

template <int N>
struct Scores;
template <int N>
struct Values;

// Names and operands of the accumulator's registers, four for each 8 columns.
// clang-format off
#define RAGGED_NAMES_8 "%0, %1, %2, %3"
#define RAGGED_NAMES_16 RAGGED_NAMES_8 ", %4, %5, %6, %7"
#define RAGGED_NAMES_24 RAGGED_NAMES_16 ", %8, %9, %10, %11"
#define RAGGED_NAMES_32 RAGGED_NAMES_24 ", %12, %13, %14, %15"
#define RAGGED_NAMES_40 RAGGED_NAMES_32 ", %16, %17, %18, %19"
#define RAGGED_NAMES_48 RAGGED_NAMES_40 ", %20, %21, %22, %23"
#define RAGGED_NAMES_56 RAGGED_NAMES_48 ", %24, %25, %26, %27"
#define RAGGED_NAMES_64 RAGGED_NAMES_56 ", %28, %29, %30, %31"
#define RAGGED_NAMES_72 RAGGED_NAMES_64 ", %32, %33, %34, %35"
#define RAGGED_NAMES_80 RAGGED_NAMES_72 ", %36, %37, %38, %39"
#define RAGGED_NAMES_88 RAGGED_NAMES_80 ", %40, %41, %42, %43"
#define RAGGED_NAMES_96 RAGGED_NAMES_88 ", %44, %45, %46, %47"
#define RAGGED_NAMES_104 RAGGED_NAMES_96 ", %48, %49, %50, %51"
#define RAGGED_NAMES_112 RAGGED_NAMES_104 ", %52, %53, %54, %55"
#define RAGGED_NAMES_120 RAGGED_NAMES_112 ", %56, %57, %58, %59"
#define RAGGED_NAMES_128 RAGGED_NAMES_120 ", %60, %61, %62, %63"
#define RAGGED_NAMES_136 RAGGED_NAMES_128 ", %64, %65, %66, %67"
#define RAGGED_NAMES_144 RAGGED_NAMES_136 ", %68, %69, %70, %71"
#define RAGGED_NAMES_152 RAGGED_NAMES_144 ", %72, %73, %74, %75"
#define RAGGED_NAMES_160 RAGGED_NAMES_152 ", %76, %77, %78, %79"
#define RAGGED_NAMES_168 RAGGED_NAMES_160 ", %80, %81, %82, %83"
#define RAGGED_NAMES_176 RAGGED_NAMES_168 ", %84, %85, %86, %87"
#define RAGGED_NAMES_184 RAGGED_NAMES_176 ", %88, %89, %90, %91"
#define RAGGED_NAMES_192 RAGGED_NAMES_184 ", %92, %93, %94, %95"
#define RAGGED_NAMES_200 RAGGED_NAMES_192 ", %96, %97, %98, %99"
#define RAGGED_NAMES_208 RAGGED_NAMES_200 ", %100, %101, %102, %103"
#define RAGGED_NAMES_216 RAGGED_NAMES_208 ", %104, %105, %106, %107"
#define RAGGED_NAMES_224 RAGGED_NAMES_216 ", %108, %109, %110, %111"
#define RAGGED_NAMES_232 RAGGED_NAMES_224 ", %112, %113, %114, %115"
#define RAGGED_NAMES_240 RAGGED_NAMES_232 ", %116, %117, %118, %119"
#define RAGGED_NAMES_248 RAGGED_NAMES_240 ", %120, %121, %122, %123"
#define RAGGED_NAMES_256 RAGGED_NAMES_248 ", %124, %125, %126, %127"
#define RAGGED_FOUR(c, d, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define RAGGED_REGISTERS_8(c, d) RAGGED_FOUR(c, d, 0)
#define RAGGED_REGISTERS_16(c, d) RAGGED_REGISTERS_8(c, d), RAGGED_FOUR(c, d, 4)
#define RAGGED_REGISTERS_24(c, d) RAGGED_REGISTERS_16(c, d), RAGGED_FOUR(c, d, 8)
#define RAGGED_REGISTERS_32(c, d) RAGGED_REGISTERS_24(c, d), RAGGED_FOUR(c, d, 12)
#define RAGGED_REGISTERS_40(c, d) RAGGED_REGISTERS_32(c, d), RAGGED_FOUR(c, d, 16)
#define RAGGED_REGISTERS_48(c, d) RAGGED_REGISTERS_40(c, d), RAGGED_FOUR(c, d, 20)
#define RAGGED_REGISTERS_56(c, d) RAGGED_REGISTERS_48(c, d), RAGGED_FOUR(c, d, 24)
#define RAGGED_REGISTERS_64(c, d) RAGGED_REGISTERS_56(c, d), RAGGED_FOUR(c, d, 28)
#define RAGGED_REGISTERS_72(c, d) RAGGED_REGISTERS_64(c, d), RAGGED_FOUR(c, d, 32)
#define RAGGED_REGISTERS_80(c, d) RAGGED_REGISTERS_72(c, d), RAGGED_FOUR(c, d, 36)
#define RAGGED_REGISTERS_88(c, d) RAGGED_REGISTERS_80(c, d), RAGGED_FOUR(c, d, 40)
#define RAGGED_REGISTERS_96(c, d) RAGGED_REGISTERS_88(c, d), RAGGED_FOUR(c, d, 44)
#define RAGGED_REGISTERS_104(c, d) RAGGED_REGISTERS_96(c, d), RAGGED_FOUR(c, d, 48)
#define RAGGED_REGISTERS_112(c, d) RAGGED_REGISTERS_104(c, d), RAGGED_FOUR(c, d, 52)
#define RAGGED_REGISTERS_120(c, d) RAGGED_REGISTERS_112(c, d), RAGGED_FOUR(c, d, 56)
#define RAGGED_REGISTERS_128(c, d) RAGGED_REGISTERS_120(c, d), RAGGED_FOUR(c, d, 60)
#define RAGGED_REGISTERS_136(c, d) RAGGED_REGISTERS_128(c, d), RAGGED_FOUR(c, d, 64)
#define RAGGED_REGISTERS_144(c, d) RAGGED_REGISTERS_136(c, d), RAGGED_FOUR(c, d, 68)
#define RAGGED_REGISTERS_152(c, d) RAGGED_REGISTERS_144(c, d), RAGGED_FOUR(c, d, 72)
#define RAGGED_REGISTERS_160(c, d) RAGGED_REGISTERS_152(c, d), RAGGED_FOUR(c, d, 76)
#define RAGGED_REGISTERS_168(c, d) RAGGED_REGISTERS_160(c, d), RAGGED_FOUR(c, d, 80)
#define RAGGED_REGISTERS_176(c, d) RAGGED_REGISTERS_168(c, d), RAGGED_FOUR(c, d, 84)
#define RAGGED_REGISTERS_184(c, d) RAGGED_REGISTERS_176(c, d), RAGGED_FOUR(c, d, 88)
#define RAGGED_REGISTERS_192(c, d) RAGGED_REGISTERS_184(c, d), RAGGED_FOUR(c, d, 92)
#define RAGGED_REGISTERS_200(c, d) RAGGED_REGISTERS_192(c, d), RAGGED_FOUR(c, d, 96)
#define RAGGED_REGISTERS_208(c, d) RAGGED_REGISTERS_200(c, d), RAGGED_FOUR(c, d, 100)
#define RAGGED_REGISTERS_216(c, d) RAGGED_REGISTERS_208(c, d), RAGGED_FOUR(c, d, 104)
#define RAGGED_REGISTERS_224(c, d) RAGGED_REGISTERS_216(c, d), RAGGED_FOUR(c, d, 108)
#define RAGGED_REGISTERS_232(c, d) RAGGED_REGISTERS_224(c, d), RAGGED_FOUR(c, d, 112)
#define RAGGED_REGISTERS_240(c, d) RAGGED_REGISTERS_232(c, d), RAGGED_FOUR(c, d, 116)
#define RAGGED_REGISTERS_248(c, d) RAGGED_REGISTERS_240(c, d), RAGGED_FOUR(c, d, 120)
#define RAGGED_REGISTERS_256(c, d) RAGGED_REGISTERS_248(c, d), RAGGED_FOUR(c, d, 124)
// clang-format on

#define RAGGED_SCORES_TEXT(N, TYPE, FIRST, A, B)                                        \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " FIRST                                             \
  ", 0;\n"                                                                              \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" RAGGED_NAMES_##N \
      "}, %" #A ", %" #B ", p, 1, 1, 0, 0;\n}\n"
#define RAGGED_VALUES_TEXT(N, TYPE, A0, A1, A2, A3, B)                                  \
  "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                            \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" RAGGED_NAMES_##N \
      "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1, 1;\n}\n"

// A and B number the operands after the accumulator's N / 2 registers.
#define RAGGED_SCORES(N, A, B)                                                       \
  template <>                                                                        \
  struct Scores<N> {                                                                 \
    template <class T>                                                               \
    static __device__ __forceinline__ void start(float (&d)[N / 2], std::uint64_t a, \
                                                 std::uint64_t b) {                  \
      if constexpr (std::is_same_v<T, __half>) {                                     \
        asm volatile(RAGGED_SCORES_TEXT(N, "f16", "0", A, B)                         \
                     : RAGGED_REGISTERS_##N("=f", d)                                 \
                     : "l"(a), "l"(b));                                              \
      } else {                                                                       \
        asm volatile(RAGGED_SCORES_TEXT(N, "bf16", "0", A, B)                        \
                     : RAGGED_REGISTERS_##N("=f", d)                                 \
                     : "l"(a), "l"(b));                                              \
      }                                                                              \
    }                                                                                \
    template <class T>                                                               \
    static __device__ __forceinline__ void add(float (&d)[N / 2], std::uint64_t a,   \
                                               std::uint64_t b) {                    \
      if constexpr (std::is_same_v<T, __half>) {                                     \
        asm volatile(RAGGED_SCORES_TEXT(N, "f16", "1", A, B)                         \
                     : RAGGED_REGISTERS_##N("+f", d)                                 \
                     : "l"(a), "l"(b));                                              \
      } else {                                                                       \
        asm volatile(RAGGED_SCORES_TEXT(N, "bf16", "1", A, B)                        \
                     : RAGGED_REGISTERS_##N("+f", d)                                 \
                     : "l"(a), "l"(b));                                              \
      }                                                                              \
    }                                                                                \
  };
#define RAGGED_VALUES(N, A0, A1, A2, A3, B)                                         \
  template <>                                                                       \
  struct Values<N> {                                                                \
    template <class T>                                                              \
    static __device__ __forceinline__ void add(float (&d)[N / 2], std::uint32_t a0, \
                                               std::uint32_t a1, std::uint32_t a2,  \
                                               std::uint32_t a3, std::uint64_t b) { \
      if constexpr (std::is_same_v<T, __half>) {                                    \
        asm volatile(RAGGED_VALUES_TEXT(N, "f16", A0, A1, A2, A3, B)                \
                     : RAGGED_REGISTERS_##N("+f", d)                                \
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));                 \
      } else {                                                                      \
        asm volatile(RAGGED_VALUES_TEXT(N, "bf16", A0, A1, A2, A3, B)               \
                     : RAGGED_REGISTERS_##N("+f", d)                                \
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));                 \
      }                                                                             \
    }                                                                               \
  };

RAGGED_SCORES(16, 8, 9)
RAGGED_SCORES(32, 16, 17)
RAGGED_SCORES(48, 24, 25)
RAGGED_SCORES(64, 32, 33)
RAGGED_SCORES(80, 40, 41)
RAGGED_SCORES(96, 48, 49)
RAGGED_SCORES(112, 56, 57)
RAGGED_SCORES(128, 64, 65)
RAGGED_SCORES(144, 72, 73)
RAGGED_SCORES(160, 80, 81)
RAGGED_SCORES(176, 88, 89)
RAGGED_SCORES(192, 96, 97)

RAGGED_VALUES(8, 4, 5, 6, 7, 8)
RAGGED_VALUES(16, 8, 9, 10, 11, 12)
RAGGED_VALUES(24, 12, 13, 14, 15, 16)
RAGGED_VALUES(32, 16, 17, 18, 19, 20)
RAGGED_VALUES(40, 20, 21, 22, 23, 24)
RAGGED_VALUES(48, 24, 25, 26, 27, 28)
RAGGED_VALUES(56, 28, 29, 30, 31, 32)
RAGGED_VALUES(64, 32, 33, 34, 35, 36)
RAGGED_VALUES(72, 36, 37, 38, 39, 40)
RAGGED_VALUES(80, 40, 41, 42, 43, 44)
RAGGED_VALUES(88, 44, 45, 46, 47, 48)
RAGGED_VALUES(96, 48, 49, 50, 51, 52)
RAGGED_VALUES(104, 52, 53, 54, 55, 56)
RAGGED_VALUES(112, 56, 57, 58, 59, 60)
RAGGED_VALUES(120, 60, 61, 62, 63, 64)
RAGGED_VALUES(128, 64, 65, 66, 67, 68)
RAGGED_VALUES(136, 68, 69, 70, 71, 72)
RAGGED_VALUES(144, 72, 73, 74, 75, 76)
RAGGED_VALUES(152, 76, 77, 78, 79, 80)
RAGGED_VALUES(160, 80, 81, 82, 83, 84)
RAGGED_VALUES(168, 84, 85, 86, 87, 88)
RAGGED_VALUES(176, 88, 89, 90, 91, 92)
RAGGED_VALUES(184, 92, 93, 94, 95, 96)
RAGGED_VALUES(192, 96, 97, 98, 99, 100)
RAGGED_VALUES(200, 100, 101, 102, 103, 104)
RAGGED_VALUES(208, 104, 105, 106, 107, 108)
RAGGED_VALUES(216, 108, 109, 110, 111, 112)
RAGGED_VALUES(224, 112, 113, 114, 115, 116)
RAGGED_VALUES(232, 116, 117, 118, 119, 120)
RAGGED_VALUES(240, 120, 121, 122, 123, 124)
RAGGED_VALUES(248, 124, 125, 126, 127, 128)
RAGGED_VALUES(256, 128, 129, 130, 131, 132)

}  // namespace ragged::sm90
