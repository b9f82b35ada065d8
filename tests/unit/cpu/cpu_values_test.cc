// Scores of any finite size, equal scores, rows without keys.

#include "backends/cpu/arithmetic.hpp"
#include "unit/cpu/cpu_support.hpp"

namespace ragged {
namespace {

using test::fp32_problem;
using test::pair_layouts;
using test::self_layouts;
using test::Step;

#if defined(__x86_64__) || defined(__aarch64__)
// Calls one worker, in the given arithmetic mode.
class ModeExecutor final : public Executor {
 public:
  explicit ModeExecutor(cpu::ArithmeticMode mode) : mode_(mode) {}
  [[nodiscard]] int concurrency() const noexcept override { return 2; }
  void run(int /*num_workers*/, void (*task)(void*, int), void* context) override {
    const cpu::ArithmeticMode before = cpu::arithmetic_mode();
    cpu::set_arithmetic_mode(mode_);
    task(context, 1);
    kept_ = cpu::arithmetic_mode() == mode_;
    cpu::set_arithmetic_mode(before);
  }
  [[nodiscard]] bool kept() const { return kept_; }

 private:
  cpu::ArithmeticMode mode_;
  bool kept_ = false;
};
#endif

class CpuValues : public test::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuValues, ::testing::ValuesIn(test::target_names()),
                         test::target_name);

// One key: the output is its value and the LSE its score, however large.
TEST_P(CpuValues, OneKeyGivesItsValue) {
  for (const float size : {1e-20f, 1.0f, -524288.0f, 133120.0f * 133120.0f, 1e30f, -1e30f}) {
    Problem problem = fp32_problem(AttentionKind::self, 1, 1, 8);
    problem.sm_scale = 1.0;
    Step step(problem, self_layouts({1}));
    step.q.fill(0.0f);
    step.k.fill(0.0f);
    step.q.set(0, 0, 0, 1.0f);
    step.k.set(0, 0, 0, size);
    step.run(cpu_backend(), simd());
    for (int d = 0; d < 8; ++d) EXPECT_EQ(step.out.at(0, 0, d), step.v.at(0, 0, d)) << size;
    EXPECT_NEAR(step.lse_at(0, 0), size, 2e-7 * std::abs(size) + 1e-20);
  }
}

// 300 keys in several blocks, all scores equal: the mean of the values.
TEST_P(CpuValues, EqualScoresWeighTheSame) {
  for (const float size : {0.0f, 1.0f, -1e30f, 1e30f}) {
    Problem problem = fp32_problem(AttentionKind::cross, 1, 1, 8);
    problem.sm_scale = 1.0;
    Step step(problem, pair_layouts({3}, {300}));
    step.q.fill(1.0f);
    step.k.fill(0.0f);
    for (std::int64_t key = 0; key < 300; ++key) {
      step.k.set(key, 0, 0, size);
      for (int d = 0; d < 8; ++d) step.v.set(key, 0, d, static_cast<float>(key % 3));
    }
    step.run(cpu_backend(), simd());
    for (int d = 0; d < 8; ++d) EXPECT_NEAR(step.out.at(2, 0, d), 1.0f, 1e-6) << size;
  }
}

// Scores that rise by more than the lazy step in every block, and the largest of +-1e30 last.
TEST_P(CpuValues, RisingScoresMoveTheReference) {
  Problem problem = fp32_problem(AttentionKind::cross, 1, 1, 8);
  problem.sm_scale = 1.0;
  for (const float top : {2000.0f, 1e30f}) {
    Step step(problem, pair_layouts({2}, {500}));
    step.q.fill(1.0f);
    step.k.fill(0.0f);
    for (std::int64_t key = 0; key < 500; ++key) {
      step.k.set(key, 0, 0, static_cast<float>(key - 250) / 250.0f * top);
    }
    step.run(cpu_backend(), simd());
    Step truth = step;
    truth.run(reference_backend());
    for (int d = 0; d < 8; ++d) EXPECT_NEAR(step.out.at(1, 0, d), truth.out.at(1, 0, d), 1e-5);
    EXPECT_NEAR(step.lse_at(1, 0), truth.lse_at(1, 0), 1e-6 * top);
  }
}

// Causal with more queries than keys: the first rows see nothing, first blocks are wholly masked.
TEST_P(CpuValues, RowsWithoutKeysAreZero) {
  for (const int head_dim : {8, 64, 72}) {
    Problem problem = fp32_problem(AttentionKind::prefixed, 2, 2, head_dim);
    problem.causal = true;
    Step step(problem, pair_layouts({200, 5, 0, 3}, {150, 2, 4, 0}));
    step.run(cpu_backend(), simd());
    Step truth = step;
    truth.run(reference_backend());
    const auto sees_none = [](std::int64_t token) {
      return token < 50 || (token >= 200 && token < 203) || token >= 205;
    };
    for (std::int64_t token = 0; token < 208; ++token) {
      for (int head = 0; head < 2; ++head) {
        EXPECT_FALSE(step.row_has_nan(token, head)) << token;
        if (!sees_none(token)) continue;
        EXPECT_EQ(step.lse_at(token, head), -std::numeric_limits<float>::infinity()) << token;
        for (int d = 0; d < head_dim; ++d) EXPECT_EQ(step.out.at(token, head, d), 0.0f) << token;
      }
    }
  }
}

// A key of -inf is one that nobody sees: rows of such keys alone give 0, in one block and in
// several.
TEST_P(CpuValues, ScoresOfMinusInfinityWeighNothing) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t finite :
         {0, 1}) {  // keys of segment 1 with a score of 0, the last ones
      Problem problem = fp32_problem(AttentionKind::cross, 1, 1, 64);
      problem.dtype = dtype;
      Step step(problem, pair_layouts({40, 3}, {300, 7}));
      step.q.fill(1.0f);
      step.k.fill(0.0f);
      for (std::int64_t key = 0; key < 307 - finite; ++key) step.k.set(key, 0, 0, kMinusInfinity);
      step.run(cpu_backend(), simd());
      for (std::int64_t token = 0; token < 43; ++token) {
        const bool sees_one = finite == 1 && token >= 40;
        EXPECT_EQ(step.lse_at(token, 0), sees_one ? 0.0f : kMinusInfinity) << token;
        for (int d = 0; d < 64; ++d) {
          EXPECT_EQ(step.out.at(token, 0, d), sees_one ? step.v.at(306, 0, d) : 0.0f) << token;
        }
      }
    }
  }
}

#if defined(__x86_64__) || defined(__aarch64__)
// The calling thread may round, flush and trap as it likes: it keeps its mode, and the rows that it
// takes have the bits of the others.
TEST_P(CpuValues, TheCallersArithmeticModeChangesNothing) {
#if defined(__x86_64__)
  constexpr cpu::ArithmeticMode kForeign = 0x4040;  // upward, small inputs are 0, nothing masked
#else
  constexpr cpu::ArithmeticMode kForeign = 0x1400000;  // upward, small numbers are 0
#endif
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    Problem problem = fp32_problem(AttentionKind::prefixed, 2, 1, 72);
    problem.dtype = dtype;
    problem.causal = true;
    Step step(problem, pair_layouts({40, 20, 3}, {200, 5, 0}));
    for (int d = 0; d < 72; ++d) step.v.set(7, 0, d, 1e-39f);
    Step plain = step;
    plain.run(cpu_backend(), simd());
    const cpu::ArithmeticMode before = cpu::arithmetic_mode();
    ModeExecutor executor(kForeign);
    step.run(cpu_backend(), simd(), 2, &executor);
    EXPECT_EQ(cpu::arithmetic_mode(), before);
    EXPECT_TRUE(executor.kept());
    for (std::int64_t token = 0; token < 63; ++token) {
      for (int head = 0; head < 2; ++head) {
        EXPECT_EQ(step.row_bits(token, head), plain.row_bits(token, head)) << token;
      }
    }
  }
}
#endif

// What lies past the plan is never read into a result nor written.
TEST_P(CpuValues, RowsPastThePlanStayUntouched) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Problem problem = fp32_problem(AttentionKind::self, 2, 1, 72);
    problem.dtype = dtype;
    Step step(problem, self_layouts({20, 150}), 2, 40);
    for (std::int64_t row = 170; row < 210; ++row) {
      for (int d = 0; d < 72; ++d) {
        const float bad = row % 2 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                       : std::numeric_limits<float>::infinity();
        step.q.set(row, 0, d, bad);
        step.k.set(row, 0, d, bad);
        step.v.set(row, 0, d, bad);
      }
    }
    step.run(cpu_backend(), simd());
    for (std::int64_t token = 0; token < 210; ++token) {
      for (int head = 0; head < 2; ++head) {
        if (token < 170) {
          EXPECT_FALSE(step.row_has_nan(token, head));
        } else {
          EXPECT_EQ(step.lse_at(token, head), -7.0f);
          for (int d = 0; d < 72; ++d) EXPECT_EQ(step.out.at(token, head, d), -7.0f);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ragged
