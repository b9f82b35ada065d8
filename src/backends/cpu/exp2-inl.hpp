// 2^x of a vector, for the weights of a softmax.

#if defined(RAGGED_CPU_EXP2_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_EXP2_INL
#undef RAGGED_CPU_EXP2_INL
#else
#define RAGGED_CPU_EXP2_INL
#endif

#include "lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// The polynomials are minimax fits of degree 5 in relative error with p(0) = 1, so that 2^0 is
// exactly 1 and equal scores get equal weights. Both stay within 2.4 units in the last place.

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86

// AVX-512 reduces to [0, 1) and scales in one instruction each: 7 instructions, against 11.
// -inf gives 0, NaN stays NaN.
HWY_INLINE FloatVec Exp2(FloatVec x) {
  const FloatTag d;
  const FloatVec f{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  FloatVec p = hn::Set(d, 0.0018671301659196615f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.009017029777169228f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.05579991266131401f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24016444385051727f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.6931512951850891f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  return FloatVec{_mm512_scalef_ps(p.raw, x.raw)};
}

#else

// Reduces to [-0.5, 0.5] by adding a constant whose last bit weighs 1: the low bits of the sum are
// then 127 + round(x), the exponent field of the power. Below 2^-126 the result is exactly 0: -inf
// must not leave a weight behind. NaN stays NaN. Precondition: x < 127.
HWY_INLINE FloatVec Exp2(FloatVec x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const FloatVec lowest = hn::Set(d, -127.0f);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  x = hn::Max(lowest, x);                                   // the second operand where one is NaN
#else
  x = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
#endif
  const FloatVec shift = hn::Set(d, 12582912.0f + 127.0f);  // 1.5 * 2^23 + the exponent's bias
  const FloatVec biased = hn::Add(x, shift);
  const FloatVec f = hn::Sub(x, hn::Sub(biased, shift));
  FloatVec p = hn::Set(d, 0.001326472731307149f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.009671512991189957f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.05550733581185341f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022242426872253f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.6931470036506653f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::BitCast(di, biased));
  return hn::Mul(p, hn::BitCast(d, power));
}

#endif

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
