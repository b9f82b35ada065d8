// Bands of heads that are fetched ahead together: every row once, and nothing changes but time.

#include "backends/cpu/band.hpp"
#include "unit/cpu/cpu_support.hpp"

namespace ragged {
namespace {

TEST(CpuBand, SharesAreTheRowsInOrderEachOnce) {
  alignas(64) static char memory[64 * 256];
  for (const std::int64_t rows : {0, 1, 5, 64, 67}) {
    for (const std::int64_t shares : {1, 2, 12, 16}) {
      std::int64_t next = 0;
      for (std::int64_t share = 0; share < shares; ++share) {
        cpu::BandShare part;
        part.add(memory, 128, 192, rows, share, shares);
        if (part.count == 0) continue;
        const cpu::Span& span = part.spans[0];
        EXPECT_EQ(span.first, memory + next * 192);
        EXPECT_EQ(span.row_bytes, 128);
        EXPECT_EQ(span.stride_bytes, 192);
        next += span.rows;
      }
      EXPECT_EQ(next, rows) << shares << " shares";
    }
  }
}

TEST(CpuBand, ASpanBeginsWithACacheLine) {
  alignas(64) static char memory[1024];
  cpu::BandShare part;
  part.add(memory + 80, 160, 320, 2, 0, 1);
  ASSERT_EQ(part.count, 1);
  EXPECT_EQ(part.spans[0].first, memory + 64);
  EXPECT_EQ(part.spans[0].row_bytes, 176);
}

struct Shape {
  DType dtype;
  int num_qo_heads;
  int num_kv_heads;
  int head_dim;
};

class CpuBands : public test::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuBands, ::testing::ValuesIn(test::target_names()),
                         test::target_name);

// Many short segments, so that workers claim several items at once; empty ones, and one whose heads
// are more than one band. Workers in turn leave all items to the first, those of a pool do not.
TEST_P(CpuBands, BitsDoNotDependOnWorkers) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 120; ++i) lengths.push_back(i * 7 % 24);
  lengths.push_back(700);
  for (const Shape& shape : {Shape{DType::fp32, 6, 6, 16}, Shape{DType::bf16, 6, 6, 16},
                             Shape{DType::bf16, 8, 4, 24}, Shape{DType::fp16, 5, 5, 8}}) {
    Problem problem = test::fp32_problem(AttentionKind::self, shape.num_qo_heads,
                                         shape.num_kv_heads, shape.head_dim);
    problem.dtype = shape.dtype;
    problem.causal = true;
    StepLayouts layouts;
    layouts.q = test::layout_of(lengths);
    layouts.kv_is_q = true;
    test::Step one(problem, layouts);
    test::Step several = one;
    one.run(cpu_backend(), simd());
    for (const int threads : {2, 3, 7}) {
      Executor* const pool = threads == 2 ? &default_executor() : nullptr;
      several.run(cpu_backend(), simd(), threads, pool);
      for (std::int64_t token = 0; token < one.layouts.q.extent(); ++token) {
        for (int head = 0; head < shape.num_qo_heads; ++head) {
          ASSERT_EQ(one.row_bits(token, head), several.row_bits(token, head))
              << threads << " threads, row " << token << ", head " << head;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ragged
