// bf16 scores that a first chunk does not foretell: the matrix tiles take a row's reference from
// its first 128 keys and must notice, and do over, every row for which that does not hold.

#include "unit/cpu/cpu_support.hpp"

namespace ragged {
namespace {

using test::pair_layouts;
using test::Step;

class CpuMatrix : public test::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuMatrix, ::testing::ValuesIn(test::target_names()),
                         test::target_name);

Problem bf16_problem(int head_dim) {
  Problem problem = test::problem_of(AttentionKind::cross, 1, 1, head_dim);
  problem.dtype = DType::bf16;
  problem.sm_scale = 1.0;
  return problem;
}

// q is 1 in column 0 and 0 elsewhere, so that a key's first column is its score.
void set_scores(Step& step, float (*score)(std::int64_t key)) {
  step.q.fill(0.0F);
  step.k.fill(0.0F);
  for (std::int64_t row = 0; row < step.q.shape()[0]; ++row) step.q.set(row, 0, 0, 1.0F);
  for (std::int64_t key = 0; key < step.k.shape()[0]; ++key) step.k.set(key, 0, 0, score(key));
}

void expect_truth(Step& step, const std::string& simd) {
  Step truth = step;
  truth.run(reference_backend());
  step.run(cpu_backend(), simd);
  for (std::int64_t row = 0; row < step.q.shape()[0]; ++row) {
    ASSERT_NEAR(step.lse_at(row, 0), truth.lse_at(row, 0),
                1e-5 + 1e-6 * std::abs(truth.lse_at(row, 0)));
    for (int d = 0; d < step.problem.head_dim; ++d) {
      const float expected = truth.out.at(row, 0, d);
      ASSERT_NEAR(step.out.at(row, 0, d), expected, 1.6e-2 * std::max(1.0F, std::abs(expected)))
          << "row " << row << ", d " << d;
    }
  }
}

TEST_P(CpuMatrix, ScoresRiseFarAboveTheFirstChunk) {
  Step step(bf16_problem(40), pair_layouts({33}, {500}));
  set_scores(step, [](std::int64_t key) { return static_cast<float>(key); });
  expect_truth(step, simd());
  set_scores(step,
             [](std::int64_t key) { return key < 200 ? -1e30F : static_cast<float>(key % 7); });
  expect_truth(step, simd());
  set_scores(step, [](std::int64_t key) { return key == 480 ? 1e30F : 0.0F; });
  expect_truth(step, simd());
}

TEST_P(CpuMatrix, ScoresFallFarBelowTheFirstChunk) {
  Step step(bf16_problem(64), pair_layouts({40}, {400}));
  set_scores(step, [](std::int64_t key) { return key == 3 ? 300.0F : -300.0F; });
  expect_truth(step, simd());
  set_scores(step, [](std::int64_t) { return -1e30F; });
  expect_truth(step, simd());
}

// With a negative scale the smallest product is the largest score.
TEST_P(CpuMatrix, NegativeScaleTakesTheSmallestProduct) {
  for (const double sm_scale : {-1.0, -30.0}) {
    Problem problem = bf16_problem(40);
    problem.sm_scale = sm_scale;
    Step step(problem, pair_layouts({33}, {300}));
    set_scores(step, [](std::int64_t key) { return static_cast<float>(key % 97); });
    expect_truth(step, simd());
    set_scores(step, [](std::int64_t key) { return key == 250 ? -1e30F : 100.0F; });
    expect_truth(step, simd());
  }
}

// Weights of 2^40 times values of 1e30 leave fp32; the outputs do not.
TEST_P(CpuMatrix, LargeValuesMeetLargeWeights) {
  Step step(bf16_problem(8), pair_layouts({12}, {300}));
  set_scores(step, [](std::int64_t key) { return key < 128 ? 0.0F : 28.0F; });
  for (std::int64_t key = 0; key < 300; ++key) step.v.set(key, 0, 1, 1e30F);
  expect_truth(step, simd());
}

// Rows that hold keep their bits where another row of the panel is done over.
TEST_P(CpuMatrix, OneRowDoneOverLeavesTheOthersBits) {
  Step step(bf16_problem(16), pair_layouts({64}, {300}));
  Step other = step;
  other.q.set(20, 0, 0, 3e4F);
  step.run(cpu_backend(), simd());
  other.run(cpu_backend(), simd());
  for (std::int64_t row = 0; row < 64; ++row) {
    if (row != 20) {
      EXPECT_EQ(step.row_bits(row, 0), other.row_bits(row, 0)) << row;
    }
  }
}

TEST(CpuMatrixPlan, NarrowGroupsOfRowsStayOnVectors) {
  const Backend* const backends[] = {&cpu_backend()};
  Problem problem = bf16_problem(64);
  Plan plan;
  make_plan(plan, problem, pair_layouts({1, 100}, {1500, 1500}), DeviceFacts::parse("cpu:amx:8"),
            backends);
  ASSERT_EQ(plan.units.size(), 2U);
  for (const WorkUnit& unit : plan.units) {
    const auto variant = static_cast<cpu::Variant>(plan.tiles.rules[unit.rule].tile.variant);
    EXPECT_EQ(variant, unit.segment == 0 ? cpu::Variant::packed : cpu::Variant::matrix);
  }
  // Any other dtype, and a machine without tiles, knows no such rule.
  make_plan(plan, problem, pair_layouts({100}, {100}), DeviceFacts::parse("cpu:avx512:8"),
            backends);
  EXPECT_EQ(plan.tiles.num_rules, 1);
}

}  // namespace
}  // namespace ragged
