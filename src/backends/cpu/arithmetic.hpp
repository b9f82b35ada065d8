#pragma once

// How a worker's thread rounds while it computes. On x86, results below the smallest normal number
// count as 0: a weight of 2^-130 changes no sum, but each product with it would take about a
// hundred cycles. All else is as a thread starts out, whatever the caller has set: a row's bits
// must not depend on which thread takes it, and no exception of arithmetic may become a signal.

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace ragged::cpu {

#if defined(__SSE__)
using ArithmeticMode = unsigned;
inline constexpr ArithmeticMode kWorkersMode =
    _MM_MASK_MASK | _MM_ROUND_NEAREST | _MM_FLUSH_ZERO_ON;
inline ArithmeticMode arithmetic_mode() noexcept { return _mm_getcsr(); }
inline void set_arithmetic_mode(ArithmeticMode mode) noexcept { _mm_setcsr(mode); }
#elif defined(__aarch64__)
// To nearest, no traps; small results stay, since flushing them would flush small inputs too.
using ArithmeticMode = std::uint64_t;
inline constexpr ArithmeticMode kWorkersMode = 0;
// Volatile and with memory clobbered: arithmetic on what is in memory stays on its side of them.
inline ArithmeticMode arithmetic_mode() noexcept {
  ArithmeticMode mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode)::"memory");
  return mode;
}
inline void set_arithmetic_mode(ArithmeticMode mode) noexcept {
  asm volatile("msr fpcr, %0" ::"r"(mode) : "memory");
}
#else
using ArithmeticMode = unsigned;
inline constexpr ArithmeticMode kWorkersMode = 0;
inline ArithmeticMode arithmetic_mode() noexcept { return 0; }
inline void set_arithmetic_mode(ArithmeticMode /*mode*/) noexcept {}
#endif

class WorkersArithmetic {
 public:
  WorkersArithmetic() noexcept : saved_(arithmetic_mode()) { set_arithmetic_mode(kWorkersMode); }
  ~WorkersArithmetic() { set_arithmetic_mode(saved_); }
  WorkersArithmetic(const WorkersArithmetic&) = delete;
  WorkersArithmetic& operator=(const WorkersArithmetic&) = delete;

 private:
  ArithmeticMode saved_;
};

}  // namespace ragged::cpu
