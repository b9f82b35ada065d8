// A panel's rows out of the scratch: scaled, converted, written, and their LSE.

#if defined(RAGGED_CPU_FINISH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_FINISH_INL
#undef RAGGED_CPU_FINISH_INL
#else
#define RAGGED_CPU_FINISH_INL
#endif

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "elements-inl.hpp"
#include "panel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Writes rows whose sums are complete. `mains`: the main dims too; otherwise the tiles wrote them.
template <class T>
void WriteRows(const Panel& panel, T* const* out, bool mains) {
  const FloatTag d;
  const int dims = main_dims(panel.head_dim);
  HWY_ALIGN float inverse[kMaxPanelRows];
  InverseSums(panel, inverse);
  if (mains) {
    for (int i = 0; i < panel.rows; ++i) {
      const FloatVec scale = hn::Set(d, inverse[i]);
      for (int x = 0; x < dims; x += kLanes) {
        StoreElements(hn::Mul(hn::Load(d, panel.outputs[i] + x), scale), d, out[i] + x);
      }
    }
  }
  if constexpr (kLanes > kTailDims) {
    if (dims == panel.head_dim) return;
    const hn::CappedTag<float, kTailDims> d8;
    const int lanes = panel.vectors * kLanes;
    HWY_ALIGN float row[kTailDims];
    for (int i = 0; i < panel.rows; ++i) {
      for (int c = 0; c < kTailDims; ++c) row[c] = panel.tails[c * lanes + i] * inverse[i];
      StoreElements(hn::Load(d8, row), d8, out[i] + dims);
    }
  }
}

// ln(sum of e^score) of row i; -inf for a row without keys. In double: the reference may be large.
inline float row_lse(const Panel& panel, int i) {
  const float sum = panel.sums[i];
  if (sum == 0.0f) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(static_cast<double>(panel.references[i]) * std::numbers::ln2 +
                            std::log(static_cast<double>(sum)));
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
