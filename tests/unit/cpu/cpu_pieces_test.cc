// The kernel's pieces by themselves, compiled for every target and run on those that this machine
// has: exponential, conversions, packing, tiles, masks, references.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "unit/cpu/cpu_pieces_test.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include "backends/cpu/output-inl.hpp"
#include "backends/cpu/pack-inl.hpp"
#include "backends/cpu/score-inl.hpp"
#include "backends/cpu/softmax-inl.hpp"
#include "backends/cpu/tail-inl.hpp"
#include "numbers.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Floats aligned to a vector, drawn from one seed.
struct Floats {
  explicit Floats(std::size_t count, unsigned seed = 0) : data(hwy::AllocateAligned<float>(count)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < count; ++i) data[i] = seed == 0 ? 0.0f : normal(random);
  }
  float* get() { return data.get(); }
  float operator[](int i) const { return data[static_cast<std::size_t>(i)]; }
  hwy::AlignedFreeUniquePtr<float[]> data;
};

inline float Exp2Of(float x) {
  const FloatTag d;
  HWY_ALIGN float lanes[kMaxLanes];
  hn::Store(Exp2(hn::Set(d, x)), d, lanes);
  return lanes[0];
}

void Exp2IsAccurate() {
  double worst = 0.0;
  for (int i = 0; i < 200000; ++i) {
    const float x = -120.0f + 128.0f * static_cast<float>(i) / 200000.0f;
    worst = std::max(worst, std::abs(Exp2Of(x) / std::exp2(static_cast<double>(x)) - 1.0));
  }
  EXPECT_LT(worst, 2.5e-7);
  EXPECT_EQ(Exp2Of(0.0f), 1.0f);
  EXPECT_EQ(Exp2Of(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(Exp2Of(-3e38f), 0.0f);
  EXPECT_TRUE(std::isnan(Exp2Of(std::numeric_limits<float>::quiet_NaN())));
}

// Every 16-bit pattern to fp32 and back, and rounding in the middle of two neighbours.
template <class T>
void ConversionsAreExact(DType dtype) {
  const FloatTag d;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    T from[kMaxLanes] = {};
    T to[kMaxLanes] = {};
    from[0].bits = static_cast<std::uint16_t>(bits);
    const FloatVec v = LoadElements(d, from);
    HWY_ALIGN float wide[kMaxLanes];
    hn::Store(v, d, wide);
    const double expected = load_element(&from[0], dtype);
    StoreElements(v, d, to);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide[0])) << bits;
      ASSERT_TRUE(std::isnan(load_element(&to[0], dtype))) << bits;
      continue;
    }
    ASSERT_EQ(wide[0], expected) << bits;
    ASSERT_EQ(to[0].bits, from[0].bits);
    const std::uint32_t step = dtype == DType::bf16 ? 0x8000u : 0x1000u;
    for (const std::uint32_t add : {step - 1, step, step + 1}) {
      std::uint32_t word;
      std::memcpy(&word, &wide[0], sizeof(word));
      word += add;
      float between;
      std::memcpy(&between, &word, sizeof(between));
      if (std::isnan(between) || std::isinf(wide[0])) continue;
      const bool bf16 = std::is_same_v<T, Bf16>;
      const std::uint16_t rounded = bf16 ? float_to_bf16(between) : float_to_fp16(between);
      StoreElements(hn::Set(d, between), d, to);
      ASSERT_EQ(to[0].bits, rounded) << bits << " + " << add;
    }
  }
}

// 13 keys of two sources, 40 dims: a last tile that is not full, a tile across the sources.
template <class T>
void PackingKeepsElements(DType dtype) {
  constexpr int kDim = 40;
  std::vector<T> first(6 * 64);
  std::vector<T> second(9 * 48);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (T& x : first) store_element(&x, dtype, normal(random));
  for (T& x : second) store_element(&x, dtype, normal(random));
  KeySources<T> sources;
  sources.k[0] = {first.data(), 64};
  sources.v[0] = {first.data() + 8, 64};
  sources.k[1] = {second.data(), 48};
  sources.v[1] = {second.data() + 3, 48};
  sources.first_count = 6;
  Floats keys(16 * kDim);
  Floats values(16 * 48);
  const int begin = 1;
  PackChunk(sources, begin, 14, kDim, keys.get(), values.get());
  for (int j = 0; j < 13; ++j) {
    for (int x = 0; x < kDim; ++x) {
      const int at = j / kKeyTile * kKeyTile * kDim + x * kKeyTile + j % kKeyTile;
      ASSERT_EQ(keys[at], load_element(sources.key(begin + j) + x, dtype)) << j << ", " << x;
      ASSERT_EQ(values[j * static_cast<int>(packed_value_stride(kDim)) + x],
                load_element(sources.value(begin + j) + x, dtype));
    }
  }
}

template <int kRowVectors, int kKeys, bool kPacked>
void ScoreTileAdds() {
  constexpr int kDim = 24;
  constexpr int kRows = kRowVectors * kLanes;
  Floats queries(kDim * kRows, 1);
  Floats keys(kKeys * 64 + kDim * kKeyTile, 2);
  Floats scores(kKeys * kRows);
  Floats maxima(kRows);
  std::fill_n(maxima.get(), kRows, -1.0f);
  Background background;
  ScoreTile<kRowVectors, kKeys, kPacked>(queries.get(), keys.get(), 64, kDim, scores.get(),
                                         maxima.get(), &background);
  for (int r = 0; r < kRows; ++r) {
    float top = -1.0f;
    for (int j = 0; j < kKeys; ++j) {
      double sum = 0.0;
      for (int x = 0; x < kDim; ++x) {
        sum += static_cast<double>(queries[x * kRows + r]) *
               static_cast<double>(kPacked ? keys[x * kKeyTile + j] : keys[j * 64 + x]);
      }
      ASSERT_NEAR(scores[j * kRows + r], sum, 2e-5) << j << ", " << r;
      top = std::max(top, scores[j * kRows + r]);
    }
    ASSERT_EQ(maxima[r], top) << r;
  }
}

template <int kRows, int kDimVectors>
void OutputTileAdds() {
  constexpr int kKeys = 11;
  constexpr int kDims = kDimVectors * kLanes;
  Floats weights(kKeys * 64, 1);
  Floats values(kKeys * 96, 2);
  Floats before(kRows * kDims, 3);
  Floats after(kRows * kDims);
  Floats scale(kRows, 4);
  std::vector<float*> from(kRows);
  std::vector<float*> to(kRows);
  for (int i = 0; i < kRows; ++i) {
    from[static_cast<std::size_t>(i)] = before.get() + i * kDims;
    to[static_cast<std::size_t>(i)] = after.get() + i * kDims;
  }
  Background background;
  for (const bool first : {false, true}) {
    OutputTile<kRows, kDimVectors>(weights.get(), 64, values.get(), 96, kKeys,
                                   {first ? nullptr : from.data(), to.data(), scale.get(), false},
                                   0, &background);
    for (int i = 0; i < kRows; ++i) {
      for (int x = 0; x < kDims; ++x) {
        double sum = first ? 0.0 : static_cast<double>(before[i * kDims + x]);
        for (int j = 0; j < kKeys; ++j) {
          sum += static_cast<double>(weights[j * 64 + i]) * static_cast<double>(values[j * 96 + x]);
        }
        ASSERT_NEAR(after[i * kDims + x], sum * static_cast<double>(scale[i]), 5e-5);
      }
    }
  }
}

void TilesAdd() {
  ScoreTileAdds<1, 1, false>();
  ScoreTileAdds<2, 3, false>();
  ScoreTileAdds<kMaxRowVectors, score_keys(kMaxRowVectors), false>();
  ScoreTileAdds<3, kKeyTile, true>();
  ScoreTileAdds<1, 2, true>();
  OutputTileAdds<1, 1>();
  OutputTileAdds<output_rows(2), 2>();
  OutputTileAdds<output_rows(kMaxDimVectors), kMaxDimVectors>();
}

// Hidden scores do not reach a row: neither as a score nor, in the tail, as a value.
void MasksHide() {
  constexpr int kKeys = 6;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Floats scores(kKeys * kLanes, 1);
  Floats maxima(static_cast<std::size_t>(kLanes));
  HWY_ALIGN std::int32_t ends[kMaxLanes];
  for (int r = 0; r < kLanes; ++r) {
    ends[r] = std::min(1 + r, kKeys);
    for (int j = ends[r]; j < kKeys; ++j) scores.get()[j * kLanes + r] = kNaN;
  }
  MaskScores<1>(scores.get(), 1, kKeys, ends, maxima.get());
  Floats references(static_cast<std::size_t>(kLanes));
  Floats sums(static_cast<std::size_t>(kLanes));
  Floats factors(static_cast<std::size_t>(kLanes));
  std::fill_n(references.get(), kLanes, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(MoveReference<1>(maxima.get(), references.get(), sums.get(), factors.get()));
  Weigh<1>(scores.get(), kKeys, references.get(), sums.get());
  Floats values(kKeys * 8, 2);
  for (int x = 0; x < 8; ++x) values.get()[5 * 8 + x] = kNaN;  // seen by rows from 5 on
  Floats tails(8 * static_cast<std::size_t>(kLanes));
  OutputTailMasked<1>(scores.get(), values.get(), 8, 0, kKeys, ends, tails.get());
  for (int r = 0; r < kLanes; ++r) {
    EXPECT_FALSE(std::isnan(sums[r])) << r;
    EXPECT_EQ(references[r], maxima[r]);
    EXPECT_GE(sums[r], 1.0f);
    for (int j = ends[r]; j < kKeys; ++j) EXPECT_EQ(scores[j * kLanes + r], 0.0f);
    EXPECT_EQ(std::isnan(tails[r]), r >= 5) << r;
  }
}

// A reference moves only by more than the lazy step, and the factor undoes the move.
void ReferencesMoveLazily() {
  Floats maxima(static_cast<std::size_t>(kLanes));
  Floats references(static_cast<std::size_t>(kLanes));
  Floats sums(static_cast<std::size_t>(kLanes));
  Floats factors(static_cast<std::size_t>(kLanes));
  std::fill_n(sums.get(), kLanes, 2.0f);
  for (int r = 0; r < kLanes; ++r) maxima.get()[r] = r % 2 == 0 ? kLazyStep : kLazyStep + 2.0f;
  EXPECT_TRUE(MoveReference<1>(maxima.get(), references.get(), sums.get(), factors.get()));
  for (int r = 0; r < kLanes; ++r) {
    EXPECT_EQ(references[r], r % 2 == 0 ? 0.0f : kLazyStep + 2.0f);
    EXPECT_EQ(factors[r], r % 2 == 0 ? 1.0f : std::exp2(-kLazyStep - 2.0f));
    EXPECT_EQ(sums[r], 2.0f * factors[r]);
  }
  EXPECT_FALSE(MoveReference<1>(maxima.get(), references.get(), sums.get(), factors.get()));
}

void Fp16Exact() { ConversionsAreExact<Fp16>(DType::fp16); }
void Bf16Exact() { ConversionsAreExact<Bf16>(DType::bf16); }
void PackFp32() { PackingKeepsElements<float>(DType::fp32); }
void PackFp16() { PackingKeepsElements<Fp16>(DType::fp16); }
void PackBf16() { PackingKeepsElements<Bf16>(DType::bf16); }

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ragged::cpu {

HWY_EXPORT(Exp2IsAccurate);
HWY_EXPORT(Fp16Exact);
HWY_EXPORT(Bf16Exact);
HWY_EXPORT(PackFp32);
HWY_EXPORT(PackFp16);
HWY_EXPORT(PackBf16);
HWY_EXPORT(TilesAdd);
HWY_EXPORT(MasksHide);
HWY_EXPORT(ReferencesMoveLazily);

namespace {

// Calls `piece` on every target that the machine has.
template <typename Piece>
void on_every_target(Piece piece) {
  for (std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS; targets != 0;
       targets &= targets - 1) {
    const std::int64_t target = targets & -targets;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    piece();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

TEST(CpuPieces, Exp2IsAccurate) {
  on_every_target([] { HWY_DYNAMIC_DISPATCH(Exp2IsAccurate)(); });
}
TEST(CpuPieces, Fp16IsConvertedExactly) {
  on_every_target([] { HWY_DYNAMIC_DISPATCH(Fp16Exact)(); });
}
TEST(CpuPieces, Bf16IsConvertedExactly) {
  on_every_target([] { HWY_DYNAMIC_DISPATCH(Bf16Exact)(); });
}
TEST(CpuPieces, PackingKeepsElements) {
  on_every_target([] { HWY_DYNAMIC_DISPATCH(PackFp32)(); });
  on_every_target([] { HWY_DYNAMIC_DISPATCH(PackFp16)(); });
  on_every_target([] { HWY_DYNAMIC_DISPATCH(PackBf16)(); });
}
TEST(CpuPieces, TilesAdd) {
  on_every_target([] { HWY_DYNAMIC_DISPATCH(TilesAdd)(); });
}
TEST(CpuPieces, MasksHide) {
  on_every_target([] { HWY_DYNAMIC_DISPATCH(MasksHide)(); });
}
TEST(CpuPieces, ReferencesMoveLazily) {
  on_every_target([] { HWY_DYNAMIC_DISPATCH(ReferencesMoveLazily)(); });
}

}  // namespace
}  // namespace ragged::cpu
#endif
