#include "bench/softmax_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/softmax_rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ragged::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// 2^x for x <= 0: minimax polynomial of degree 5 on [-1/2, 1/2], relative error 7.5e-8; the
// exponent is added as an integer. Below -126 the result stays at 2^-126.
HWY_INLINE V exp2_of(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = hn::Max(x, hn::Set(d, -126.0F));
  const V whole = hn::Round(x);
  const V f = hn::Sub(x, whole);
  V p = hn::Set(d, 0.0013276472454890609F);
  p = hn::MulAdd(p, f, hn::Set(d, 0.009675540961325169F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.05550713092088699F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022120237350464F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.6931469440460205F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0000001192092896F));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, whole));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

HWY_INLINE float max_of(D d, const float* scores, std::int64_t count) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  V a = lowest, b = lowest, c = lowest, e = lowest;  // four chains hide the latency
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Max(a, hn::LoadU(d, scores + i));
    b = hn::Max(b, hn::LoadU(d, scores + i + lanes));
    c = hn::Max(c, hn::LoadU(d, scores + i + 2 * lanes));
    e = hn::Max(e, hn::LoadU(d, scores + i + 3 * lanes));
  }
  for (; i < count; i += lanes) {
    const auto inside = hn::FirstN(d, static_cast<std::size_t>(count - i));
    a = hn::Max(a, hn::IfThenElse(inside, hn::LoadU(d, scores + i), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
}

// Scores to weights in place; returns their sum.
HWY_INLINE float exponentiate(D d, float* scores, std::int64_t count, float scale, float max) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V vscale = hn::Set(d, scale);
  const V shift = hn::Set(d, -max);
  V even = hn::Zero(d), odd = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const V p = exp2_of(d, hn::MulAdd(hn::LoadU(d, scores + i), vscale, shift));
    const V q = exp2_of(d, hn::MulAdd(hn::LoadU(d, scores + i + lanes), vscale, shift));
    even = hn::Add(even, p);
    odd = hn::Add(odd, q);
    hn::StoreU(p, d, scores + i);
    hn::StoreU(q, d, scores + i + lanes);
  }
  for (; i < count; i += lanes) {
    const auto inside = hn::FirstN(d, static_cast<std::size_t>(count - i));
    const V s = hn::IfThenElse(inside, hn::LoadU(d, scores + i), hn::Zero(d));
    const V p = hn::IfThenElseZero(inside, exp2_of(d, hn::MulAdd(s, vscale, shift)));
    even = hn::Add(even, p);
    hn::StoreU(p, d, scores + i);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}

void softmax_rows(float* scores, std::int64_t stride, std::int64_t rows, std::int64_t keys,
                  const std::int64_t* visible, float scale, RowState* states, float* rescale) {
  const D d;
  for (std::int64_t row = 0; row < rows; ++row) {
    float* s = scores + row * stride;
    RowState& state = states[row];
    rescale[row] = 1.0F;
    if (visible[row] > 0) {
      const float max = scale * max_of(d, s, visible[row]);
      if (max > state.max) {
        // The first block has nothing before it: 2^-inf is 0.
        rescale[row] =
            state.sum > 0.0F ? hn::GetLane(exp2_of(d, hn::Set(d, state.max - max))) : 0.0F;
        state.max = max;
      }
      state.sum = state.sum * rescale[row] + exponentiate(d, s, visible[row], scale, state.max);
    }
    for (std::int64_t key = visible[row]; key < keys; ++key) s[key] = 0.0F;
  }
}

void scale_rows(float* out, std::int64_t stride, std::int64_t rows, std::int64_t head_dim,
                const float* factors) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < rows; ++row) {
    float* o = out + row * stride;
    const float factor = factors[row];
    if (factor == 1.0F) continue;
    const V vfactor = hn::Set(d, factor);
    std::int64_t i = 0;
    if (factor == 0.0F) {
      for (; i < head_dim; ++i) o[i] = 0.0F;
    }
    for (; i + lanes <= head_dim; i += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, o + i), vfactor), d, o + i);
    }
    for (; i < head_dim; ++i) o[i] *= factor;
  }
}

}  // namespace ragged::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ragged::bench {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(scale_rows);

void softmax_rows(float* scores, std::int64_t stride, std::int64_t rows, std::int64_t keys,
                  const std::int64_t* visible, float scale, RowState* states, float* rescale) {
  HWY_DYNAMIC_DISPATCH(softmax_rows)
  (scores, stride, rows, keys, visible, scale, states, rescale);
}

void scale_rows(float* out, std::int64_t stride, std::int64_t rows, std::int64_t head_dim,
                const float* factors) {
  HWY_DYNAMIC_DISPATCH(scale_rows)(out, stride, rows, head_dim, factors);
}

}  // namespace ragged::bench
#endif
