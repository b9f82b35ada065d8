#pragma once

// How a worker's thread rounds while it computes. Results below the smallest normal number count as
// 0: a weight of 2^-130 changes no sum, but on x86 each product with it would take about a hundred
// cycles. All else is as a thread starts out, whatever the caller has set: a row's bits must not
// depend on which thread takes it, and no exception of arithmetic may become a signal.

#include <hwy/detect_compiler_arch.h>
#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

namespace ragged::cpu {

class FlushToZero {
 public:
#if HWY_ARCH_X86
  FlushToZero() noexcept : saved_(_mm_getcsr()) {
    _mm_setcsr(_MM_MASK_MASK | _MM_ROUND_NEAREST | _MM_FLUSH_ZERO_ON);
  }
  ~FlushToZero() { _mm_setcsr(saved_); }
#else
  FlushToZero() noexcept {}
  ~FlushToZero() {}
#endif
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
#if HWY_ARCH_X86
  unsigned saved_;
#endif
};

}  // namespace ragged::cpu
