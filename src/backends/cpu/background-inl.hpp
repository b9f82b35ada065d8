// What the inner loops do beside their arithmetic: fetch what comes next, and write finished rows
// past the caches.

#if defined(RAGGED_CPU_BACKGROUND_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_BACKGROUND_INL
#undef RAGGED_CPU_BACKGROUND_INL
#else
#define RAGGED_CPU_BACKGROUND_INL
#endif

#include <algorithm>

#include "lanes-inl.hpp"
#include "prefetch.hpp"
#include "shapes.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

class Background {
 public:
  Prefetcher prefetcher;

  // Called by the inner loops every eight steps. One row a tick: a panel's rows at once would fill
  // the buffers between the core and memory, and its loads would wait for them.
  HWY_INLINE void tick() {
    prefetcher.tick();
    if (rows_ > 0) WriteRow();
  }
  // Rows `from` [rows][dims] are to be written to `to`, which is aligned to cache lines. They must
  // stay as they are until drain().
  void hand_over(const float* from, float* const* to, int rows, int dims) {
    drain();
    from_ = from;
    std::copy_n(to, rows, to_);
    next_ = to_;
    rows_ = rows;
    dims_ = dims;
  }
  // Writes what is left.
  void drain() {
    while (rows_ > 0) WriteRow();
  }

 private:
  HWY_INLINE void WriteRow() {
    const FloatTag d;
    float* to = *next_++;
    for (int x = 0; x < dims_; x += kLanes) hn::Stream(hn::Load(d, from_ + x), d, to + x);
    from_ += dims_;
    --rows_;
  }

  const float* from_ = nullptr;
  float** next_ = nullptr;
  int rows_ = 0;
  int dims_ = 0;
  float* to_[kMaxPanelRows] = {};
};

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
