// What plans say is computed in vain: vectors of rows that a unit does not fill, and keys that only
// later rows of a tile see.

#include "cpu_support.hpp"

namespace ragged {
namespace {

Plan plan_of(const Backend& backend, std::string_view device, const Problem& problem,
             std::vector<std::int64_t> lengths) {
  StepLayouts layouts;
  layouts.q = test::layout_of(lengths);
  layouts.kv_is_q = true;
  const Backend* list[] = {&backend};
  Plan plan;
  make_plan(plan, problem, layouts, DeviceFacts::parse(device), list);
  return plan;
}

Problem fp32_problem(int num_qo_heads, bool causal) {
  Problem problem = test::problem_of(AttentionKind::self, num_qo_heads, 2, 64);
  problem.dtype = DType::fp32;
  problem.causal = causal;
  return problem;
}

TEST(CpuWaste, AWindowOfWholeVectorsWastesNothing) {
  const Plan plan = plan_of(cpu_backend(), "cpu:avx512:1", fp32_problem(2, false), {64, 64});
  EXPECT_EQ(plan.waste().rows_computed, 128);
  EXPECT_EQ(plan.waste().scores_computed, plan.waste().scores_useful);
}

TEST(CpuWaste, TheLastVectorIsWhole) {
  // 65 rows are four vectors of 16 and one row, whose vector sees 65 keys too.
  const Plan plan = plan_of(cpu_backend(), "cpu:avx512:1", fp32_problem(2, false), {65});
  EXPECT_EQ(plan.waste().rows_computed, 80);
  EXPECT_EQ(plan.waste().scores_computed, 80.0 * 65);
  // Four heads share a key head: a vector holds 4 tokens.
  const Plan grouped = plan_of(cpu_backend(), "cpu:avx512:1", fp32_problem(8, false), {65});
  EXPECT_EQ(grouped.waste().rows_computed, 68);
}

TEST(CpuWaste, ACausalTileSeesWhatItsLastRowSees) {
  const Plan plan = plan_of(cpu_backend(), "cpu:avx2:1", fp32_problem(2, true), {40});
  // 24 rows see up to 24 keys; 16 rows, two vectors of 8, up to 40.
  EXPECT_EQ(plan.waste().scores_computed, 24.0 * 24 + 16.0 * 40);
  EXPECT_EQ(plan.waste().scores_useful, 40.0 * 41 / 2);
}

TEST(CpuWaste, MatrixTilesTakeKeysInPairsOfTiles) {
  Problem problem = fp32_problem(2, false);
  problem.dtype = DType::bf16;
  const Plan plan = plan_of(cpu_backend(), "cpu:amx:1", problem, {40});
  EXPECT_EQ(plan.waste().scores_computed, 64.0 * 64);
}

TEST(CpuWaste, TheReferenceWastesNothing) {
  for (const bool causal : {false, true}) {
    const Plan plan =
        plan_of(reference_backend(), "cpu", fp32_problem(4, causal), {1, 0, 65, 300, 7});
    EXPECT_EQ(plan.waste().rows_computed, plan.waste().rows_useful);
    EXPECT_EQ(plan.waste().scores_computed, plan.waste().scores_useful);
  }
}

}  // namespace
}  // namespace ragged
