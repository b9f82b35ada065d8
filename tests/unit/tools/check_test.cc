// The program's own check: rows, right answers, errors and tolerances.

#include <cmath>
#include <limits>

#include "error_report.hpp"
#include "file_case.hpp"
#include "refusal.hpp"

namespace ragged::tools {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Case small_case(std::vector<std::int64_t> lengths) {
  CaseOptions o;
  o.lengths = std::move(lengths);
  o.num_qo_heads = 2;
  o.num_kv_heads = 1;
  o.head_dim = 8;
  return build_case(o);
}

TEST(ChooseRows, SeesTheIntervals) {
  Case c = small_case({2, 0, 3});
  c.problem.causal = true;
  const std::vector<RowKeys> rows = choose_rows(c, {CheckRows::Kind::all, 0}, 0);
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[1].segment, 0);
  EXPECT_EQ(rows[1].key_end, 2);
  EXPECT_EQ(rows[2].segment, 2);
  EXPECT_EQ(rows[2].token, 0);
  EXPECT_EQ(rows[2].key_begin, 2);
  EXPECT_EQ(rows[2].key_end, 3);
  EXPECT_EQ(rows[4].key_end, 5);
}

TEST(ChooseRows, ASampleHoldsTheEnds) {
  const Case c = small_case({5, 900, 7});
  const auto rows = choose_rows(c, {CheckRows::Kind::some, 20}, 3);
  EXPECT_LE(rows.size(), 20U);
  EXPECT_GE(rows.size(), 10U);
  for (const std::int64_t end : {0, 4, 5, 904, 905, 911}) {
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const RowKeys& row) {
      return row.row == end;
    })) << end;
  }
  EXPECT_TRUE(choose_rows(c, {CheckRows::Kind::none, 0}, 0).empty());
  EXPECT_EQ(choose_rows(c, {CheckRows::Kind::some, 5000}, 0).size(), 912U);
  EXPECT_TRUE(choose_rows(small_case({}), {CheckRows::Kind::all, 0}, 0).empty());
}

TEST(ReferenceRows, IsSoftmaxAttention) {
  const Case c = small_case({1, 3});
  const Inputs in = generate(c, 9);
  const Expected expected =
      reference_rows(c, widen(c, in), choose_rows(c, {CheckRows::Kind::all, 0}, 0));
  // Row 3, head 1: keys 1..3 of the one key head, written out in double precision.
  double weights[3];
  double sum = 0;
  for (int key = 0; key < 3; ++key) {
    double dot = 0;
    for (int d = 0; d < 8; ++d) {
      dot += static_cast<double>(in.q.at((3 * 2 + 1) * 8 + d)) * in.k.at((1 + key) * 8 + d);
    }
    sum += weights[key] = std::exp(dot / std::sqrt(8.0));
  }
  for (int d = 0; d < 8; ++d) {
    double right = 0;
    for (int key = 0; key < 3; ++key) right += weights[key] / sum * in.v.at((1 + key) * 8 + d);
    EXPECT_NEAR(expected.out[static_cast<std::size_t>((3 * 2 + 1) * 8 + d)], right, 1e-6);
  }
  EXPECT_NEAR(expected.lse[3 * 2 + 1], std::log(sum), 1e-6);
}

TEST(Worst, NamesTheElement) {
  const Case c = small_case({2, 1});
  Expected expected;
  expected.rows = choose_rows(c, {CheckRows::Kind::all, 0}, 0);
  expected.out.assign(3 * 2 * 8, 1.0F);
  expected.lse.assign(3 * 2, -kInf);
  Tensor out(DType::fp32, 3, 2, 8);
  for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, 1.0F);
  EXPECT_EQ(worst_out(expected, out).error, 0.0);
  out.set((2 * 2 + 1) * 8 + 5, 1.25F);
  out.set(3, 0.875F);
  EXPECT_EQ(worst_out(expected, out).describe(),
            "2.5e-01 at segment 1, token 0, head 1, dim 5 (expected 1, got 1.25)");

  std::vector<float> lse(3 * 2, -kInf);
  EXPECT_EQ(worst_lse(expected, lse.data(), 2).error, 0.0);  // -inf for -inf is right
  lse[3] = -1e30F;
  EXPECT_TRUE(std::isinf(worst_lse(expected, lse.data(), 2).error));
  EXPECT_EQ(worst_lse(expected, lse.data(), 2).row.token, 1);
  EXPECT_EQ(worst_lse(expected, lse.data(), 2).head, 1);
}

TEST(Worst, ANaNComesBeforeEveryFiniteError) {
  const Case c = small_case({2});
  Expected expected;
  expected.rows = choose_rows(c, {CheckRows::Kind::all, 0}, 0);
  expected.out.assign(2 * 2 * 8, 0.0F);
  Tensor out(DType::fp32, 2, 2, 8);
  out.set(0, 1e30F);
  out.set(9, kNaN);
  const Worst worst = worst_out(expected, out);
  EXPECT_TRUE(std::isinf(worst.error));
  EXPECT_EQ(worst.head, 1);
  EXPECT_EQ(worst.dim, 1);
  expected.out[9] = kNaN;
  EXPECT_EQ(worst_out(expected, out).dim, 0);
}

TEST(ToleranceFor, FollowsTheScoresAndTheType) {
  const auto plain = [](double out_error, double max_score, double max_out) {
    return Plain{.out_error = out_error, .max_score = max_score, .max_out = max_out};
  };
  EXPECT_DOUBLE_EQ(tolerance_for(DType::fp32, plain(0, 8, 2)).out, 1e-5);
  EXPECT_DOUBLE_EQ(tolerance_for(DType::fp32, plain(0, 8, 2)).lse, 1e-5);
  EXPECT_DOUBLE_EQ(tolerance_for(DType::fp32, plain(0, 58, 3.2)).out, 1e-5);
  EXPECT_DOUBLE_EQ(tolerance_for(DType::fp32, plain(0, 58, 3.2)).lse, 5e-5);
  EXPECT_DOUBLE_EQ(tolerance_for(DType::fp32, plain(0, 8, 400)).out, 1e-3);
  EXPECT_DOUBLE_EQ(tolerance_for(DType::bf16, plain(0.03, 8, 2)).out, 0.06);
  EXPECT_DOUBLE_EQ(tolerance_for(DType::bf16, plain(0.03, 8, 2)).lse, 1e-5);
  // A plain computation that happens to be exact still grants the output's own rounding.
  EXPECT_DOUBLE_EQ(tolerance_for(DType::fp16, plain(0, 8, 2)).out, 2.0 / 2048);
}

// Largest errors of a plain computation as an independent program (NumPy) gave them.
TEST(PlainError, IsWhatAnotherProgramFinds) {
  const std::vector<std::pair<const char*, double>> layers = {
      {"minilm_layer3_bf16", 1.4e-2},
      {"minilm_layer5_fp16", 2.4e-3},
      {"whisper_encoder_bf16", 3.4e-2},
      {"whisper_decoder_causal_fp16", 1.2e-3},
      {"whisper_cross_bf16", 1.2e-2}};
  for (const auto& [name, error] : layers) {
    const FileCase file =
        read_case("examples/data/" + std::string(name) + ".safetensors", CaseOptions{});
    const Plain plain = plain_error(file.c, widen(file.c, file.inputs), file.expected->rows);
    EXPECT_NEAR(plain.out_error, error, 0.15 * error) << name;
  }
}

TEST(PlainError, FindsTheLargestScore) {
  const FileCase file = read_case("examples/data/minilm_layer0_fp32.safetensors", CaseOptions{});
  const Plain plain = plain_error(file.c, widen(file.c, file.inputs), file.expected->rows);
  EXPECT_GT(plain.max_score, 57.0);
  EXPECT_LT(plain.max_score, 59.0);
  EXPECT_EQ(plain.out_error, 0.0);
}

}  // namespace
}  // namespace ragged::tools
