// Which steps share a graph, and what cuDNN's own checks say of it: without a GPU.

#include <gtest/gtest.h>

#include "backends/cudnn/graphs.hpp"
#include "backends/cudnn/library.hpp"
#include "backends/cudnn/shape.hpp"

namespace ragged::cudnn {
namespace {

Problem usual(int head_dim = 128) {
  Problem problem;
  problem.num_qo_heads = 8;
  problem.num_kv_heads = 2;
  problem.head_dim = head_dim;
  problem.sm_scale = 0.088;
  return problem;
}

StepTotals steps(std::int64_t segments, std::int64_t q_length, std::int64_t kv_length) {
  StepTotals totals;
  totals.num_segments = segments;
  totals.max_q_length = q_length;
  totals.max_kv_length = kv_length;
  return totals;
}

device::AttentionArgs packed(const Problem& problem, float* lse) {
  device::AttentionArgs args;
  const std::int64_t dim = problem.head_dim;
  args.q = args.out = {nullptr, problem.num_qo_heads * dim, dim, 10};
  args.k = args.v = {nullptr, problem.num_kv_heads * dim, dim, 10};
  args.lse = {lse, problem.num_qo_heads, 1};
  return args;
}

TEST(CudnnGraphKey, CountsRoundUpByAnEighthAtMost) {
  EXPECT_EQ(rounded_segments(0), 1);
  for (std::int64_t n = 1; n <= 16; ++n) EXPECT_EQ(rounded_segments(n), n);
  EXPECT_EQ(rounded_segments(17), 18);
  EXPECT_EQ(rounded_segments(64), 64);
  EXPECT_EQ(rounded_segments(65), 72);
  EXPECT_EQ(rounded_segments(131072), 131072);
  for (std::int64_t n = 1; n < 5000; ++n) {
    EXPECT_GE(rounded_segments(n), n);
    EXPECT_LE(8 * rounded_segments(n), 9 * n + 8);
    EXPECT_EQ(rounded_segments(rounded_segments(n)), rounded_segments(n));
  }
}

TEST(CudnnGraphKey, LengthsRoundUpToPowersOfTwo) {
  EXPECT_EQ(rounded_length(0), 1024);
  EXPECT_EQ(rounded_length(1), 1024);
  EXPECT_EQ(rounded_length(1025), 2048);
  EXPECT_EQ(rounded_length(std::int64_t{1} << 30), std::int64_t{1} << 30);
}

TEST(CudnnGraphKey, LayoutsShareAGraphAndStridesDoNot) {
  const Problem problem = usual();
  const device::AttentionArgs args = packed(problem, nullptr);
  const GraphKey key = graph_key(problem, steps(70, 700, 700), 0, args);
  EXPECT_EQ(key, graph_key(problem, steps(65, 3, 900), 0, args));
  EXPECT_EQ(key, packed_key(problem, steps(72, 1024, 1024), 0));
  EXPECT_NE(key, graph_key(problem, steps(73, 700, 700), 0, args));
  EXPECT_NE(key, graph_key(problem, steps(70, 1025, 700), 0, args));
  EXPECT_NE(key, graph_key(problem, steps(70, 700, 1025), 0, args));
  EXPECT_NE(key, graph_key(problem, steps(70, 700, 700), 1, args));
  device::AttentionArgs fused = args;
  fused.k.token_stride = 1536;
  EXPECT_NE(key, graph_key(problem, steps(70, 700, 700), 0, fused));
  float lse = 0.0F;
  EXPECT_NE(key, graph_key(problem, steps(70, 700, 700), 0, packed(problem, &lse)));
  Problem causal = problem;
  causal.causal = true;
  EXPECT_NE(key, graph_key(causal, steps(70, 700, 700), 0, args));
  Problem scaled = problem;
  scaled.sm_scale = -0.25;
  EXPECT_NE(key, graph_key(scaled, steps(70, 700, 700), 0, args));
}

TEST(CudnnGraphKey, AnLseThatIsNotAskedForHasNoStrides) {
  device::AttentionArgs args = packed(usual(), nullptr);
  const GraphKey key = graph_key(usual(), steps(3, 5, 5), 0, args);
  args.lse.token_stride = 77;
  EXPECT_EQ(key, graph_key(usual(), steps(3, 5, 5), 0, args));
}

TEST(CudnnGraphKey, TheStrideOfASingleHeadIsNobodys) {
  Problem problem = usual();
  problem.num_kv_heads = 1;
  device::AttentionArgs args = packed(problem, nullptr);
  const GraphKey key = graph_key(problem, steps(3, 5, 5), 0, args);
  args.k.head_stride = args.v.head_stride = 0;
  EXPECT_EQ(key, graph_key(problem, steps(3, 5, 5), 0, args));
}

TEST(CudnnGraph, CudnnAcceptsEveryShapeThatIsServed) {
  if (!library().absence.empty()) GTEST_SKIP() << library().absence;
  float lse = 0.0F;
  for (const int head_dim : {8, 64, 72, 128, 256}) {
    for (const bool causal : {false, true}) {
      for (float* const asked : {static_cast<float*>(nullptr), &lse}) {
        Problem problem = usual(head_dim);
        problem.causal = causal;
        const GraphKey key = graph_key(problem, steps(1000, 77, 5000), 0, packed(problem, asked));
        EXPECT_EQ(validate_graph(key, 90, 132), "") << "head_dim " << head_dim;
      }
    }
  }
}

TEST(CudnnGraph, CudnnRefusesWhatWeDecline) {
  if (!library().absence.empty()) GTEST_SKIP() << library().absence;
  GraphKey key = packed_key(usual(), steps(3, 5, 5), 0);
  key.head_dim = 100;
  EXPECT_NE(validate_graph(key, 90, 132).find("multiple of 8"), std::string::npos);
}

}  // namespace
}  // namespace ragged::cudnn
