#include "tensors.hpp"

#include <cmath>
#include <cstdint>

#include "refusal.hpp"

namespace ragged::tools {
namespace {

TEST(FillNormal, IsNormal) {
  Tensor tensor(DType::fp32, 1000, 4, 64);
  fill_normal(tensor, 1);
  double sum = 0;
  double squares = 0;
  double largest = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = tensor.at(i);
    sum += value;
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  const auto count = static_cast<double>(tensor.elements());
  EXPECT_NEAR(sum / count, 0.0, 0.01);
  EXPECT_NEAR(squares / count, 1.0, 0.01);
  EXPECT_GT(largest, 4.0);
  EXPECT_LT(largest, 8.0);
}

TEST(FillNormal, FollowsTheSeedAndNotTheSize) {
  Tensor small(DType::fp32, 3, 1, 8);
  Tensor large(DType::fp32, 20000, 1, 8);
  Tensor other(DType::fp32, 3, 1, 8);
  fill_normal(small, 5);
  fill_normal(large, 5);
  fill_normal(other, 6);
  int same = 0;
  for (std::int64_t i = 0; i < small.elements(); ++i) {
    EXPECT_EQ(small.at(i), large.at(i));
    same += small.at(i) == other.at(i) ? 1 : 0;
  }
  EXPECT_EQ(same, 0);
}

TEST(Tensor, IsAlignedAlsoWithoutRows) {
  for (const std::int64_t tokens : {0, 1, 7}) {
    const Tensor tensor(DType::bf16, tokens, 3, 8);
    EXPECT_NE(tensor.view().data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.view().data) % 64, 0U);
    EXPECT_EQ(tensor.bytes().size(), static_cast<std::size_t>(tokens * 3 * 8 * 2));
  }
}

TEST(Generate, QKAndVDiffer) {
  CaseOptions o;
  o.lengths = std::vector<std::int64_t>{4};
  const Case c = build_case(o);
  const Inputs in = generate(c, 0);
  EXPECT_NE(in.q.at(0), in.k.at(0));
  EXPECT_NE(in.k.at(0), in.v.at(0));
  EXPECT_NE(in.q.at(0), generate(c, 1).q.at(0));
}

TEST(Generate, RefusesMoreThanTheMemory) {
  CaseOptions o;
  o.lengths = std::vector<std::int64_t>{std::int64_t{1} << 36};
  const Case c = build_case(o);
  EXPECT_TRUE(holds(refusal([&] { (void)generate(c, 0); }), "half of this machine's"));
}

TEST(Widen, JoinsPrefixAndFreshKeysBySegment) {
  CaseOptions o;
  o.lengths = std::vector<std::int64_t>{2, 0, 1};
  o.prefix_lengths = std::vector<std::int64_t>{1, 3, 0};
  o.two_sources = true;
  o.dtype = DType::bf16;
  o.num_qo_heads = 1;
  o.head_dim = 8;
  const Case c = build_case(o);
  const Inputs in = generate(c, 3);
  ASSERT_EQ(in.prefix_k.tokens(), 4);
  ASSERT_EQ(in.k.tokens(), 3);
  const WideInputs wide = widen(c, in);
  ASSERT_EQ(wide.k.tokens(), 7);
  EXPECT_EQ(wide.k.dtype(), DType::fp32);
  // Row of the joined keys -> (from the prefix, row there).
  const std::vector<std::pair<bool, std::int64_t>> from = {
      {true, 0}, {false, 0}, {false, 1}, {true, 1}, {true, 2}, {true, 3}, {false, 2}};
  for (std::size_t row = 0; row < from.size(); ++row) {
    for (std::int64_t d = 0; d < 8; ++d) {
      const std::int64_t at = from[row].second * 8 + d;
      const std::int64_t to = static_cast<std::int64_t>(row) * 8 + d;
      EXPECT_EQ(wide.k.at(to), (from[row].first ? in.prefix_k : in.k).at(at));
      EXPECT_EQ(wide.v.at(to), (from[row].first ? in.prefix_v : in.v).at(at));
    }
  }
}

}  // namespace
}  // namespace ragged::tools
