// Heads that walk their keys abreast: each has the bits that it has alone.

#include "backends/cpu/abreast.hpp"
#include "unit/cpu/cpu_support.hpp"

namespace ragged {
namespace {

class CpuAbreast : public test::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuAbreast, ::testing::ValuesIn(test::target_names()),
                         test::target_name);

// The step of one key head and its query heads, with the same values.
test::Step head_alone(const test::Step& whole, int kv_head) {
  Problem problem = whole.problem;
  const int group = problem.group();
  problem.num_kv_heads = 1;
  problem.num_qo_heads = group;
  test::Step one(problem, whole.layouts);
  const auto bytes = static_cast<std::size_t>(problem.head_dim * size_bytes(problem.dtype));
  const auto copy = [&](const test::Tensor& from, test::Tensor& to, int first, int heads) {
    for (std::int64_t token = 0; token < to.shape()[0]; ++token) {
      for (int h = 0; h < heads; ++h) {
        std::memcpy(to.view().row(token, h), from.view().row(token, first + h), bytes);
      }
    }
  };
  copy(whole.q, one.q, kv_head * group, group);
  copy(whole.k, one.k, kv_head, 1);
  copy(whole.v, one.v, kv_head, 1);
  copy(whole.prefix_k, one.prefix_k, kv_head, 1);
  copy(whole.prefix_v, one.prefix_v, kv_head, 1);
  return one;
}

void expect_bits_of_heads_alone(const std::string& simd, const Problem& problem,
                                const StepLayouts& layouts) {
  test::Step whole(problem, layouts, 7);
  for (const int threads : {1, 3}) {
    whole.run(cpu_backend(), simd, threads);
    for (int kv_head = 0; kv_head < problem.num_kv_heads; ++kv_head) {
      test::Step one = head_alone(whole, kv_head);
      one.run(cpu_backend(), simd);
      for (std::int64_t token = 0; token < layouts.q.extent(); ++token) {
        for (int h = 0; h < problem.group(); ++h) {
          ASSERT_EQ(whole.row_bits(token, kv_head * problem.group() + h), one.row_bits(token, h))
              << to_string(problem.dtype) << ", " << threads << " threads, row " << token
              << ", key head " << kv_head << ", query head " << h << " of its group";
        }
      }
    }
  }
}

// Long keys beside short and empty ones, so that heads walk abreast, alone, and after each other.
TEST_P(CpuAbreast, CrossHasTheBitsOfEachHeadAlone) {
  StepLayouts layouts;
  layouts.q = test::layout_of({1, 2, 1, 1, 0, 3, 1, 1});
  layouts.kv = test::layout_of({700, 129, 0, 128, 300, 1500, 1, 257});
  for (const auto& [dtype, heads, head_dim] : {std::tuple{DType::fp32, 20, 16},
                                               {DType::fp32, 5, 72},
                                               {DType::bf16, 9, 24},
                                               {DType::fp16, 8, 64}}) {
    Problem problem = test::fp32_problem(AttentionKind::cross, heads, heads, head_dim);
    problem.dtype = dtype;
    expect_bits_of_heads_alone(simd(), problem, layouts);
  }
}

TEST_P(CpuAbreast, GroupedHeadsOverTwoSourcesHaveTheirBitsAlone) {
  StepLayouts layouts;
  layouts.q = test::layout_of({2, 1, 4});
  layouts.kv_is_q = true;
  layouts.prefix = test::layout_of({600, 130, 1000});
  for (const bool causal : {false, true}) {
    Problem problem = test::fp32_problem(AttentionKind::prefixed, 12, 6, 40);
    problem.two_sources = true;
    problem.causal = causal;
    expect_bits_of_heads_alone(simd(), problem, layouts);
  }
}

TEST(CpuAbreastGroups, AreEvenPartsOfAUnit) {
  Plan plan;
  Problem problem = test::fp32_problem(AttentionKind::cross, 20, 20, 64);
  StepLayouts layouts;
  layouts.q = test::layout_of({1, 1});
  layouts.kv = test::layout_of({1500, 128});
  const Backend* const backends[] = {&cpu_backend()};
  make_plan(plan, problem, layouts, DeviceFacts::host(1), backends);
  cpu::Job job;
  job.plan = &plan;
  job.abreast = 8;
  ASSERT_EQ(plan.num_items(), 40);
  const std::int64_t long_unit = plan.units[0].segment == 0 ? 0 : 20;
  EXPECT_EQ(cpu::abreast_from(job, long_unit, long_unit + 20), 7);
  EXPECT_EQ(cpu::abreast_from(job, long_unit + 7, long_unit + 20), 7);
  EXPECT_EQ(cpu::abreast_from(job, long_unit + 14, long_unit + 20), 6);
  EXPECT_EQ(cpu::abreast_from(job, long_unit + 18, long_unit + 20), 2);
  EXPECT_EQ(cpu::abreast_from(job, 20 - long_unit, 40 - long_unit), 1) << "one block of keys";
  job.abreast = 1;
  EXPECT_EQ(cpu::abreast_from(job, long_unit, long_unit + 20), 1);
}

}  // namespace
}  // namespace ragged
