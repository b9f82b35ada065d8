// What may reach a row: its own segment's visible keys and nothing else, bit for bit.

#include "unit/cpu/cpu_support.hpp"

namespace ragged {
namespace {

using test::fp32_problem;
using test::layout_of;
using test::self_layouts;
using test::Step;

struct DTypeAndDim {
  DType dtype;
  int head_dim;
};
// 72 dims end in half a vector of 16 lanes; bf16 may run on matrix tiles.
constexpr DTypeAndDim kDTypesAndDims[] = {
    {DType::fp32, 8}, {DType::fp32, 64}, {DType::fp32, 72}, {DType::bf16, 40}, {DType::bf16, 72}};

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Copies rows [from, from + count) of one tensor to row `to` of another.
void copy_rows(const test::Tensor& source, std::int64_t from, std::int64_t count,
               test::Tensor& target, std::int64_t to) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t h = 0; h < source.shape()[1]; ++h) {
      for (std::int64_t d = 0; d < source.shape()[2]; ++d) {
        target.set(to + i, h, d, source.at(from + i, h, d));
      }
    }
  }
}

void poison(test::Tensor& tensor, std::int64_t row) {
  for (std::int64_t h = 0; h < tensor.shape()[1]; ++h) {
    for (std::int64_t d = 0; d < tensor.shape()[2]; ++d) tensor.set(row, h, d, kNaN);
  }
}

Problem causal_problem(int head_dim, DType dtype = DType::fp32) {
  Problem problem = fp32_problem(AttentionKind::self, 4, 2, head_dim);
  problem.causal = true;
  problem.dtype = dtype;
  return problem;
}

class CpuRows : public test::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuRows, ::testing::ValuesIn(test::target_names()),
                         test::target_name);

// 30 rows of fp32 are walked in place, 200 packed.
TEST_P(CpuRows, NaNInAQueryRowStaysThere) {
  for (const auto& [dtype, head_dim] : kDTypesAndDims) {
    for (const std::int64_t rows : {30, 200}) {
      Problem problem = fp32_problem(AttentionKind::self, 4, 2, head_dim);
      problem.dtype = dtype;
      Step step(problem, self_layouts({rows}));
      Step clean = step;
      poison(step.q, 17);
      step.run(cpu_backend(), simd());
      clean.run(cpu_backend(), simd());
      for (std::int64_t token = 0; token < rows; ++token) {
        for (int head = 0; head < 4; ++head) {
          if (token == 17) {
            EXPECT_TRUE(step.row_is_nan(token, head));
          } else {
            EXPECT_EQ(step.row_bits(token, head), clean.row_bits(token, head)) << token;
          }
        }
      }
    }
  }
}

TEST_P(CpuRows, NaNInAKeyReachesTheRowsThatSeeIt) {
  for (const auto& [dtype, head_dim] : kDTypesAndDims) {
    for (const std::int64_t rows : {30, 300}) {
      for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{9}, rows - 1}) {
        for (const bool in_value : {false, true}) {
          Step step(causal_problem(head_dim, dtype), self_layouts({rows, 5}));
          Step clean = step;
          poison(in_value ? step.v : step.k, bad);
          step.run(cpu_backend(), simd());
          clean.run(cpu_backend(), simd());
          for (std::int64_t token = 0; token < rows + 5; ++token) {
            for (int head = 0; head < 4; ++head) {
              if (token >= bad && token < rows) {
                EXPECT_TRUE(step.row_is_nan(token, head)) << token << " of " << rows;
              } else {
                EXPECT_EQ(step.row_bits(token, head), clean.row_bits(token, head)) << token;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(CpuRows, BlocksThatARowDoesNotSeeLeaveItsBits) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Problem problem = fp32_problem(AttentionKind::block_causal, 4, 4, 80);
    problem.dtype = dtype;
    problem.block_size = 50;
    Step step(problem, self_layouts({333}));
    Step changed = step;
    for (std::int64_t row = 150; row < 333; ++row) {
      poison(changed.k, row);
      poison(changed.v, row);
    }
    step.run(cpu_backend(), simd());
    changed.run(cpu_backend(), simd());
    for (std::int64_t token = 0; token < 333; ++token) {
      for (int head = 0; head < 4; ++head) {
        if (token < 150) {
          EXPECT_EQ(step.row_bits(token, head), changed.row_bits(token, head)) << token;
        } else {
          EXPECT_TRUE(changed.row_is_nan(token, head));
        }
      }
    }
  }
}

// The middle segment alone, between others, on other threads, and read in place or packed.
TEST_P(CpuRows, BitsDependOnTheSegmentAlone) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t length : {40, 96, 333}) {
      Step alone(causal_problem(72, dtype), self_layouts({length}), 3);
      Step among(causal_problem(72, dtype), self_layouts({75, length, 1500}), 4);
      copy_rows(alone.q, 0, length, among.q, 75);
      copy_rows(alone.k, 0, length, among.k, 75);
      copy_rows(alone.v, 0, length, among.v, 75);
      alone.run(cpu_backend(), simd());
      for (const int threads : {1, 3, 40}) {
        among.run(cpu_backend(), simd(), threads);
        for (std::int64_t token = 0; token < length; ++token) {
          for (int head = 0; head < 4; ++head) {
            ASSERT_EQ(among.row_bits(75 + token, head), alone.row_bits(token, head))
                << token << " of " << length << " on " << threads << " threads";
          }
        }
      }
    }
  }
}

// One rank's heads have the bits that they have among all heads, whatever the group.
TEST_P(CpuRows, ShardsHaveTheBitsOfTheWhole) {
  Step whole(fp32_problem(AttentionKind::self, 8, 1, 64), self_layouts({70}), 3);
  whole.run(cpu_backend(), simd());
  for (int shard = 0; shard < 4; ++shard) {
    Step part(fp32_problem(AttentionKind::self, 2, 1, 64), self_layouts({70}), 3);
    for (std::int64_t token = 0; token < 70; ++token) {
      for (std::int64_t d = 0; d < 64; ++d) {
        for (int head = 0; head < 2; ++head) {
          part.q.set(token, head, d, whole.q.at(token, 2 * shard + head, d));
        }
        part.k.set(token, 0, d, whole.k.at(token, 0, d));
        part.v.set(token, 0, d, whole.v.at(token, 0, d));
      }
    }
    part.run(cpu_backend(), simd());
    for (std::int64_t token = 0; token < 70; ++token) {
      for (int head = 0; head < 2; ++head) {
        EXPECT_EQ(part.row_bits(token, head), whole.row_bits(token, 2 * shard + head));
      }
    }
  }
}

TEST_P(CpuRows, TwoSourcesHaveTheBitsOfJoinedKeys) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t fresh : {17, 140}) {
      Problem problem = fp32_problem(AttentionKind::prefixed, 4, 2, 72);
      problem.causal = causal;
      StepLayouts joined_layouts = test::pair_layouts({fresh}, {fresh + 299});
      Step joined(problem, joined_layouts, 6);
      problem.two_sources = true;
      StepLayouts layouts = self_layouts({fresh});
      layouts.prefix = layout_of({299});
      Step step(problem, layouts, 7);
      copy_rows(joined.q, 0, fresh, step.q, 0);
      copy_rows(joined.k, 0, 299, step.prefix_k, 0);
      copy_rows(joined.v, 0, 299, step.prefix_v, 0);
      copy_rows(joined.k, 299, fresh, step.k, 0);
      copy_rows(joined.v, 299, fresh, step.v, 0);
      step.run(cpu_backend(), simd());
      joined.run(cpu_backend(), simd());
      for (std::int64_t token = 0; token < fresh; ++token) {
        for (int head = 0; head < 4; ++head) {
          ASSERT_EQ(step.row_bits(token, head), joined.row_bits(token, head)) << token;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ragged
