#pragma once

// Instructions of Ampere and newer as functions: asynchronous copies, matrix loads and products,
// the power of two, and the two 16-bit types.

#include <cstdint>

namespace ragged::sm80 {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes from device memory to shared memory, past the registers and L1.
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `kLeft` of this thread's groups are on their way.
template <int kLeft>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

__device__ __forceinline__ void shared_store(std::uint32_t to, std::uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
__device__ __forceinline__ void shared_store(std::uint32_t to, uint4 value) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w)
               : "memory");
}
// Without a branch around it.
__device__ __forceinline__ void shared_store_if(bool active, std::uint32_t to,
                                                std::uint32_t value) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; @p st.shared.b32 [%0], %1;}" ::"r"(to),
               "r"(value), "r"(static_cast<int>(active))
               : "memory");
}
__device__ __forceinline__ std::uint32_t shared_load(std::uint32_t from) {
  std::uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}
__device__ __forceinline__ uint4 shared_load4(std::uint32_t from) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(from)
               : "memory");
  return value;
}

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&to)[4],
                                                         std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}

// Lets the next launch of the run begin as soon as this one leaves room: where the hardware can,
// and the launch asks for it.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Ends after the launches before this one have: what comes after it on the stream waits for all.
__device__ __forceinline__ void wait_for_prerequisites() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// c[16 x 8] += a[16 x 16] b[16 x 8]. With g = lane / 4 and t = lane % 4, c holds (g, 2t), (g, 2t +
// 1), (g + 8, 2t), (g + 8, 2t + 1).
struct Bf16 {
  static constexpr std::uint32_t kExponentBits = 0x7f80;  // all set: Inf or NaN

  static __device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                                  std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    std::uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  static __device__ __forceinline__ float2 unpack(std::uint32_t packed) {
    return {__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000U)};
  }
};

struct Fp16 {
  static constexpr std::uint32_t kExponentBits = 0x7c00;

  static __device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                                  std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    std::uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  static __device__ __forceinline__ float2 unpack(std::uint32_t packed) {
    float low;
    float high;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high)
        : "r"(packed));
    return {low, high};
  }
};

// Whether either of the two elements is Inf or NaN.
template <class T>
__device__ __forceinline__ bool not_finite(std::uint32_t packed) {
  constexpr std::uint32_t kLow = T::kExponentBits;
  constexpr std::uint32_t kHigh = T::kExponentBits << 16;
  return (packed & kLow) == kLow || (packed & kHigh) == kHigh;
}

}  // namespace ragged::sm80
