#include <ragged/helpers.hpp>

#include <cmath>
#include <limits>

#include "support.hpp"

namespace ragged {
namespace {

using test::refusal;
using test::Tensor;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Padding : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBatch = 3, kMaxLen = 4, kHeads = 2, kDim = 8;
  Padding() : padded_(kBatch * kMaxLen * kHeads * kDim), packed_(DType::fp32, 6, kHeads, kDim) {
    for (std::size_t i = 0; i < padded_.size(); ++i) padded_[i] = static_cast<float>(i) + 1;
  }
  [[nodiscard]] PaddedView view() const {
    return PaddedView::dense(padded_.data(), DType::fp32, kBatch, kMaxLen, kHeads, kDim);
  }
  [[nodiscard]] float at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return padded_[static_cast<std::size_t>(((b * kMaxLen + t) * kHeads + h) * kDim + d)];
  }
  std::vector<float> padded_;
  Tensor packed_;
  const std::vector<std::int64_t> lengths_ = {4, 0, 2};
};

TEST_F(Padding, PackAndBack) {
  const std::vector<float> original = padded_;
  pack(view(), lengths_, packed_.view());
  EXPECT_EQ(packed_.at(3, 1, 7), at(0, 3, 1, 7));
  EXPECT_EQ(packed_.at(4, 0, 0), at(2, 0, 0, 0));
  EXPECT_EQ(packed_.at(5, 1, 7), at(2, 1, 1, 7));
  std::fill(padded_.begin(), padded_.end(), kNan);
  unpack(packed_.view(), lengths_, view());
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t t = 0; t < kMaxLen; ++t) {
      for (std::int64_t h = 0; h < kHeads; ++h) {
        for (std::int64_t d = 0; d < kDim; ++d) {
          const auto i = static_cast<std::size_t>(((b * kMaxLen + t) * kHeads + h) * kDim + d);
          const bool inside = t < lengths_[static_cast<std::size_t>(b)];
          EXPECT_EQ(padded_[i], inside ? original[i] : 0.0f);
        }
      }
    }
  }
}

TEST_F(Padding, StridesAreHonoured) {
  // [heads, batch, max_len, head_dim] in memory.
  PaddedView swapped = view();
  swapped.strides = {kMaxLen * kDim, kDim, kBatch * kMaxLen * kDim, 1};
  pack(swapped, lengths_, packed_.view());
  EXPECT_EQ(packed_.at(4, 1, 3),
            padded_[static_cast<std::size_t>(kBatch * kMaxLen * kDim + 2 * kMaxLen * kDim + 3)]);
}

TEST_F(Padding, RefusesByName) {
  const auto text = [&](std::vector<std::int64_t> lengths, const TensorView& packed) {
    return refusal(ErrorCode::invalid_argument, [&] { pack(view(), lengths, packed); });
  };
  EXPECT_EQ(text({1, 2}, packed_.view()), "the number of lengths is 2; padded's batch is 3");
  EXPECT_EQ(text({1, 5, 0}, packed_.view()), "lengths[1] must be in 0..4, padded's max_len; got 5");
  EXPECT_EQ(text({1, 0, -1}, packed_.view()),
            "lengths[2] must be in 0..4, padded's max_len; got -1");
  EXPECT_EQ(text({4, 3, 0}, packed_.view()), "packed has 6 rows; the lengths sum to 7");
  EXPECT_EQ(text({1, 1, 1}, Tensor(DType::bf16, 6, 2, 8).view()),
            "packed has dtype bf16; padded has fp32");
  EXPECT_EQ(text({1, 1, 1}, Tensor(DType::fp32, 6, 4, 8).view()),
            "packed's heads is 4; padded's heads is 2");
  TensorView bad = packed_.view();
  bad.strides[2] = 2;
  EXPECT_EQ(text({1, 1, 1}, bad), "packed must have stride 1 in head_dim; got 2");
  bad = packed_.view();
  bad.data = nullptr;
  EXPECT_EQ(text({1, 1, 1}, bad), "packed has no data (null)");
}

struct Part {
  Part(float value, float lse_value) : out(DType::fp32, 1, 1, 8), lse{lse_value} {
    out.fill(value);
  }
  [[nodiscard]] LseView lse_view() { return LseView::packed(lse, 1, 1); }
  Tensor out;
  float lse[1];
};

void merge(Part& a, Part& b, Part& into) {
  merge_by_lse(a.out.view(), a.lse_view(), b.out.view(), b.lse_view(), into.out.view(),
               into.lse_view());
}

TEST(Merge, WeighsByLse) {
  Part a(1.0f, std::log(3.0f));
  Part b(5.0f, 0.0f);  // weights 3 and 1
  Part into(0.0f, 0.0f);
  merge(a, b, into);
  EXPECT_NEAR(into.out.at(0, 0, 7), 2.0f, 1e-6f);
  EXPECT_NEAR(into.lse[0], std::log(4.0f), 1e-6f);
  merge(a, b, a);  // in place
  EXPECT_NEAR(a.out.at(0, 0, 0), 2.0f, 1e-6f);
  EXPECT_NEAR(a.lse[0], std::log(4.0f), 1e-6f);
}

TEST(Merge, LargeScoresDoNotOverflow) {
  Part a(1.0f, 524288.0f);
  Part b(3.0f, 524288.0f);
  merge(a, b, a);
  EXPECT_EQ(a.out.at(0, 0, 0), 2.0f);
  EXPECT_EQ(a.lse[0], static_cast<float>(524288.0 + std::log(2.0)));
}

TEST(Merge, APartWithoutKeysIsNeverRead) {
  Part a(kNan, -kInf);
  Part b(3.0f, -4.0f);
  Part into(0.0f, 0.0f);
  merge(a, b, into);
  EXPECT_EQ(into.out.at(0, 0, 0), 3.0f);
  EXPECT_EQ(into.lse[0], -4.0f);
  merge(b, a, into);
  EXPECT_EQ(into.out.at(0, 0, 0), 3.0f);
  Part c(kNan, -kInf);
  merge(a, c, into);
  EXPECT_EQ(into.out.at(0, 0, 0), 0.0f);
  EXPECT_EQ(into.lse[0], -kInf);
}

TEST(Merge, NanStaysNan) {
  Part a(kNan, kNan);
  Part b(3.0f, 1.0f);
  Part into(0.0f, 0.0f);
  merge(a, b, into);
  EXPECT_TRUE(std::isnan(into.out.at(0, 0, 0)));
  merge(b, a, into);
  EXPECT_TRUE(std::isnan(into.out.at(0, 0, 0)));
}

TEST(Merge, RefusesByName) {
  Part a(1.0f, 0.0f);
  Part b(1.0f, 0.0f);
  const auto text = [&](const TensorView& out_b, const LseView& lse_b, const TensorView& out) {
    return refusal(ErrorCode::invalid_argument,
                   [&] { merge_by_lse(a.out.view(), a.lse_view(), out_b, lse_b, out, {}); });
  };
  EXPECT_EQ(text(Tensor(DType::fp32, 2, 1, 8).view(), b.lse_view(), a.out.view()),
            "out_b's tokens is 2; out's is 1");
  EXPECT_EQ(text(b.out.view(), {}, a.out.view()), "lse_b has no data (null)");
  EXPECT_EQ(text(b.out.view(), LseView::packed(b.lse, 1, 3), a.out.view()),
            "lse_b's heads is 3; out's is 1");
  EXPECT_EQ(text(b.out.view(), b.lse_view(), Tensor(DType::fp16, 1, 1, 8).view()),
            "out_a has dtype fp32; out has fp16");
}

}  // namespace
}  // namespace ragged
