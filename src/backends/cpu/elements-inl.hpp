// Rows of bf16, fp16 and fp32 elements to and from vectors of floats.

#if defined(RAGGED_CPU_ELEMENTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_ELEMENTS_INL
#undef RAGGED_CPU_ELEMENTS_INL
#else
#define RAGGED_CPU_ELEMENTS_INL
#endif

#include <cstdint>

#include "elements.hpp"
#include "lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Targets that convert fp16 in hardware. Elsewhere we do it in integers: the library's emulation
// truncates and has no Inf or NaN.
#undef RAGGED_CPU_NATIVE_FP16
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)) || HWY_TARGET == HWY_NEON
#define RAGGED_CPU_NATIVE_FP16 1
#else
#define RAGGED_CPU_NATIVE_FP16 0
#endif

// `half` holds fp16 bits in 32-bit lanes.
template <class D, class V32>
HWY_INLINE hn::Vec<D> FloatFromFp16(D d, V32 half) {
  const hn::Rebind<std::uint32_t, D> d32;
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d32, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(d32, 0x7FFFu)));
  // Read as fp32 it is 2^112 too small, subnormal numbers included.
  const auto finite = hn::BitCast(d32, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
  const auto special = hn::Or(magnitude, hn::Set(d32, 0x7F800000u));  // Inf and NaN
  const auto is_special = hn::Gt(magnitude, hn::Set(d32, 0x0F7FFFFFu));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
}

// fp16 bits in 32-bit lanes, rounded to nearest even.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint32_t, D>> Fp16FromFloat(D d, hn::Vec<D> v) {
  const hn::Rebind<std::uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 0x8000u));
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7FFFFFFFu));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 1u));
  const auto carried = hn::Add(magnitude, hn::Add(odd, hn::Set(d32, 0xFFFu)));
  const auto normal = hn::ShiftRight<13>(hn::Sub(carried, hn::Set(d32, 0x38000000u)));
  // Below 2^-14 the sum with 0.5 rounds at 2^-24, fp16's smallest step.
  const auto half = hn::Set(d, 0.5f);
  const auto tiny =
      hn::Sub(hn::BitCast(d32, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(d32, half));
  const auto below = hn::Gt(hn::Set(d32, 0x38800000u), magnitude);
  const auto overflows = hn::Gt(magnitude, hn::Set(d32, 0x477FEFFFu));  // from 65520 on
  const auto nan = hn::Gt(magnitude, hn::Set(d32, 0x7F800000u));
  auto result = hn::IfThenElse(below, tiny, normal);
  result = hn::IfThenElse(overflows, hn::Set(d32, 0x7C00u), result);
  result = hn::IfThenElse(nan, hn::Set(d32, 0x7E00u), result);
  return hn::Or(sign, result);
}

// `p` need only be aligned to an element.
template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const Bf16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &p->bits))));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const Fp16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
#if RAGGED_CPU_NATIVE_FP16
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(d16, &p->bits)));
#else
  const hn::Rebind<std::uint32_t, D> d32;
  return FloatFromFp16(d, hn::PromoteTo(d32, hn::LoadU(d16, &p->bits)));
#endif
}

// Rounds to nearest even, as the formats' own conversions do.
template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, float* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D /*d*/, Bf16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::int32_t, D> di32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFFu)));
  // Rounding could carry a NaN's mantissa into its sign: quiet NaNs instead.
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000u));
  const auto nan = hn::RebindMask(d32, hn::Ne(v, v));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, high)), d16, &p->bits);
}
template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, [[maybe_unused]] D d, Fp16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
#if RAGGED_CPU_NATIVE_FP16
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::BitCast(d16, hn::DemoteTo(dh, v)), d16, &p->bits);
#else
  const hn::Rebind<std::int32_t, D> di32;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, Fp16FromFloat(d, v))), d16, &p->bits);
#endif
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
