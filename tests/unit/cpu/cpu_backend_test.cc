// The CPU backend against the reference, on every target: seeded problems of all kinds, dtypes,
// head dims and group sizes.

#include "backends/cpu/shapes.hpp"
#include "unit/cpu/cpu_support.hpp"

namespace ragged {
namespace {

using test::Step;

int pick(std::mt19937_64& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

std::vector<std::int64_t> lengths_of(std::mt19937_64& random, int segments, int longest) {
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < segments; ++i) {
    lengths.push_back(pick(random, 0, 3) == 0 ? pick(random, 0, 2) : pick(random, 0, longest));
  }
  return lengths;
}

Step random_step(unsigned seed) {
  std::mt19937_64 random(seed);
  Problem problem;
  problem.kind = static_cast<AttentionKind>(pick(random, 0, 3));
  problem.head_dim = 8 * pick(random, 1, pick(random, 0, 3) == 0 ? 32 : 16);
  problem.num_kv_heads = pick(random, 1, 2);
  constexpr int kGroups[] = {1, 1, 2, 3, 7, 8, 40};
  const int group = kGroups[pick(random, 0, 6)];
  problem.num_qo_heads = problem.num_kv_heads * group;
  problem.dtype = static_cast<DType>(pick(random, 0, 2));
  problem.sm_scale = 1.0 / std::sqrt(problem.head_dim);
  const bool self = problem.kind == AttentionKind::self;
  const bool prefixed = problem.kind == AttentionKind::prefixed;
  if (self || prefixed) problem.causal = pick(random, 0, 1) == 1;
  if (problem.kind == AttentionKind::block_causal) problem.block_size = pick(random, 1, 70);
  if (prefixed) problem.two_sources = pick(random, 0, 1) == 1;
  const int segments = pick(random, 1, 4);
  const int longest = group > 8 ? 40 : 300;
  StepLayouts layouts;
  layouts.q = test::layout_of(lengths_of(random, segments, longest));
  layouts.kv_is_q = true;
  if (problem.kind == AttentionKind::cross || (prefixed && !problem.two_sources)) {
    layouts.kv_is_q = false;
    layouts.kv = test::layout_of(lengths_of(random, segments, longest));
  }
  if (problem.two_sources) {
    layouts.prefix = test::layout_of(lengths_of(random, segments, longest));
  }
  return {problem, layouts, seed, 3};
}

// Rounding of the output's dtype, and of fp32 sums over a few hundred terms.
double tolerance(DType dtype) {
  return dtype == DType::fp32 ? 1e-5 : dtype == DType::fp16 ? 2e-3 : 1.6e-2;
}

void expect_close(const Step& came, const Step& truth) {
  double worst = 0.0;
  const std::int64_t rows = truth.layouts.q.extent();
  for (std::int64_t token = 0; token < truth.q.shape()[0]; ++token) {
    for (std::int64_t head = 0; head < truth.q.shape()[1]; ++head) {
      const float lse = came.lse_at(token, head);
      const float expected = truth.lse_at(token, head);
      if (std::isinf(expected) || token >= rows) {
        ASSERT_EQ(lse, expected) << "lse of token " << token << ", head " << head;
      } else {
        ASSERT_NEAR(lse, expected, 2e-5 * (1.0 + std::abs(expected)))
            << "token " << token << ", head " << head;
      }
      for (std::int64_t d = 0; d < truth.problem.head_dim; ++d) {
        const double error = std::abs(came.out.at(token, head, d) - truth.out.at(token, head, d));
        ASSERT_FALSE(std::isnan(error)) << "token " << token << ", head " << head << ", d " << d;
        worst = std::max(worst, error);
      }
    }
  }
  EXPECT_LE(worst, tolerance(truth.problem.dtype));
}

class CpuBackend : public test::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuBackend, ::testing::ValuesIn(test::target_names()),
                         test::target_name);

TEST_P(CpuBackend, AgreesWithTheReference) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Step step = random_step(seed);
    Step truth = step;
    truth.run(reference_backend());
    step.run(cpu_backend(), simd());
    ASSERT_NO_FATAL_FAILURE(expect_close(step, truth));
  }
}

// More keys than a worker packs at once, and sums that outlive a chunk.
TEST_P(CpuBackend, WalksKeysInSeveralChunks) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Problem problem = test::problem_of(AttentionKind::self, 2, 1, 256);
    problem.dtype = dtype;
    problem.causal = true;
    problem.sm_scale = 1.0 / 16;
    Step step(problem, test::self_layouts({1100, 3}), 5);
    Step truth = step;
    truth.run(reference_backend());
    step.run(cpu_backend(), simd());
    ASSERT_NO_FATAL_FAILURE(expect_close(step, truth));
  }
}

TEST(CpuBackendPlan, ServesTheCpuOnly) {
  DeviceFacts gpu = DeviceFacts::parse("h200");
  const std::string reason = cpu_backend().declines(test::problem_of(AttentionKind::self), gpu);
  EXPECT_NE(reason.find("cuda:0"), std::string::npos) << reason;
  EXPECT_EQ(cpu_backend().declines(test::problem_of(AttentionKind::self), DeviceFacts::host()), "");
}

// A scale that fp32 does not hold would make every score the same, or none a number.
// Scratch of all workers, on any machine. Where it is not enough for all threads, fewer work.
TEST(CpuBackendPlan, WorkspaceIsBoundedWhateverTheThreads) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  const Backend* const backends[] = {&cpu_backend()};
  StepLayouts layouts;
  layouts.q = test::layout_of({60000});
  layouts.kv_is_q = true;
  for (const char* simd : {"scalar", "avx2", "avx512", "amx"}) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      for (const int head_dim : {8, 64, 128, 256}) {
        for (const int group : {1, 8}) {
          Problem problem = test::fp32_problem(AttentionKind::self, 8, 8 / group, head_dim);
          problem.dtype = dtype;
          for (const int threads : {1, 2, 16, 64, 128, 384, 4096}) {
            Plan plan;
            make_plan(
                plan, problem, layouts,
                DeviceFacts::parse("cpu:" + std::string(simd) + ":" + std::to_string(threads)),
                backends);
            EXPECT_GT(plan.workspace_bytes, 0U);
            EXPECT_LE(plan.workspace_bytes, kMost) << plan.explain();
          }
        }
      }
    }
  }
}

// More items than workers with scratch, and more threads than either.
TEST_P(CpuBackend, MoreThreadsThanHaveScratchGiveTheSameBits) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Problem problem = test::fp32_problem(AttentionKind::self, 1, 1, 256);
    problem.dtype = dtype;
    StepLayouts layouts;
    layouts.q = test::layout_of(std::vector<std::int64_t>(300, 3));
    layouts.kv_is_q = true;
    Step one(problem, layouts);
    Step many = one;
    one.run(cpu_backend(), simd());
    many.run(cpu_backend(), simd(), 4096);
    for (std::int64_t token = 0; token < 900; ++token) {
      ASSERT_EQ(one.row_bits(token, 0), many.row_bits(token, 0)) << token;
    }
  }
}

TEST(CpuBackendPlan, ExplainsWhichKernelWalksATile) {
  Tile tile;
  EXPECT_EQ(cpu_backend().kernel_of(tile), "keys in place");
  tile.variant = static_cast<std::int32_t>(cpu::Variant::packed);
  EXPECT_EQ(cpu_backend().kernel_of(tile), "keys packed");
  tile.variant = static_cast<std::int32_t>(cpu::Variant::matrix);
  EXPECT_EQ(cpu_backend().kernel_of(tile), "matrix tiles");
}

TEST(CpuBackendPlan, DeclinesScalesThatFp32DoesNotHold) {
  Problem problem = test::problem_of(AttentionKind::self);
  for (const double sm_scale : {1e300, -1e300, 3e38, 1e-300, -1e-39}) {
    problem.sm_scale = sm_scale;
    const std::string reason = cpu_backend().declines(problem, DeviceFacts::host());
    EXPECT_EQ(reason.rfind("sm_scale: serves", 0), 0U) << sm_scale << ": " << reason;
  }
  for (const double sm_scale : {0.0, -0.0, 1e-37, -1e38}) {
    problem.sm_scale = sm_scale;
    EXPECT_EQ(cpu_backend().declines(problem, DeviceFacts::host()), "") << sm_scale;
  }
}

TEST(CpuBackendPlan, TakesTheWidestTargetThatIsNoWiderThanAsked) {
  for (const cpu::Target& target : cpu::runnable_targets()) {
    EXPECT_EQ(cpu::target_for(target.simd).simd, target.simd);
  }
  EXPECT_EQ(cpu::target_for("amx").simd, cpu::target_for("avx512").simd);
}

}  // namespace
}  // namespace ragged
