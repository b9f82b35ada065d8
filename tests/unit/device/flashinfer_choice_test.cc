// Which problems the kernels of FlashInfer serve, by which tiles, and how large their copies are.

#include <gtest/gtest.h>

#include "backends/flashinfer/choice.hpp"
#include "backends/flashinfer/padding.hpp"
#include "backends/flashinfer/schedule.hpp"
#include "backends/flashinfer/shapes.hpp"
#include "support/refusal.hpp"

namespace ragged::fi {
namespace {

using test::refusal;

// Of the instance that every build is tested with, bf16:64.
Problem problem_of(int head_dim = 64, int group = 1) {
  Problem problem;
  problem.head_dim = head_dim;
  problem.num_kv_heads = 2;
  problem.num_qo_heads = 2 * group;
  return problem;
}

std::string reason(void (*change)(Problem&)) {
  Problem problem = problem_of();
  change(problem);
  return declines(problem);
}

TEST(FlashInferChoice, ServesSelfCrossAndPrefixed) {
  for (const AttentionKind kind :
       {AttentionKind::self, AttentionKind::cross, AttentionKind::prefixed}) {
    Problem problem = problem_of();
    problem.kind = kind;
    EXPECT_EQ(declines(problem), "") << to_string(kind);
  }
}

TEST(FlashInferChoice, DeclinesWithTheArgumentAndWhatCame) {
  EXPECT_EQ(reason([](Problem& p) { p.dtype = DType::fp32; }),
            "dtype must be bf16 or fp16; got fp32");
  EXPECT_EQ(reason([](Problem& p) { p.kind = AttentionKind::block_causal; }),
            "kind must be self, cross or prefixed; got block_causal, a mask that flashinfer's "
            "ragged kernels lack");
  EXPECT_EQ(reason([](Problem& p) { p.two_sources = true; }),
            "keys must lie in one tensor; got two sources, a prefix and fresh keys");
  EXPECT_EQ(reason([](Problem& p) { p.num_qo_heads = 2 * 129; }),
            "num_qo_heads must be at most 128 for each key head; got 129");
}

TEST(FlashInferChoice, ADimThatIsNotBuiltNamesTheOption) {
  const std::string text = declines(problem_of(264));
  EXPECT_NE(text.find("bf16:64"), std::string::npos) << text;
  EXPECT_NE(text.find("got bf16:264 (RAGGED_FLASHINFER_INSTANCES builds more)"), std::string::npos)
      << text;
}

TEST(FlashInferChoice, TakesTheSmallestDimThatHoldsTheHead) {
  EXPECT_EQ(kernel_dim(problem_of(64)), 64);
  EXPECT_EQ(kernel_dim(problem_of(8)), 64);
  EXPECT_EQ(kernel_dim(problem_of(264)), 0);
}

// A tile's rows by heads of a group are what a block takes; every length has a rule.
TEST(FlashInferChoice, TilesHoldWholeGroups) {
  for (const int group : {1, 3, 8, 16, 17, 64, 65, 128}) {
    SCOPED_TRACE(group);
    const TileTable table = tiles(problem_of(64, group));
    ASSERT_GE(table.num_rules, 1);
    for (int i = 0; i < table.num_rules; ++i) {
      const Tile& tile = table.rules[i].tile;
      EXPECT_EQ(tile.heads, group);
      EXPECT_GE(tile.q_rows, 1);
      EXPECT_LE(tile.q_rows * group, tile.variant);
      EXPECT_EQ(tile.kv_rows, step_keys(64, tile.variant));
    }
    EXPECT_EQ(table.rules[table.num_rules - 1].tile.variant, most_rows(64));
  }
}

device::AttentionArgs dense_args() {
  device::AttentionArgs args;
  args.num_qo_heads = args.num_kv_heads = 2;
  args.head_dim = 64;
  auto* const memory = reinterpret_cast<void*>(std::uintptr_t{1} << 20);
  args.q = args.k = args.v = args.out = {memory, 128, 64, 10};
  return args;
}

TEST(FlashInferTensors, DenseOnesAreServed) { EXPECT_EQ(declines_tensors(dense_args()), ""); }

TEST(FlashInferTensors, KeysMayHaveGapsAndHeadsBeforeTokens) {
  device::AttentionArgs args = dense_args();
  args.k = {args.k.data, 64, 64 * 10, 10};
  args.v = {args.v.data, 3 * 128, 64, 10};
  EXPECT_EQ(declines_tensors(args), "");
}

TEST(FlashInferTensors, WhatTheKernelsCannotReadIsNamed) {
  device::AttentionArgs args = dense_args();
  args.k.data = static_cast<std::byte*>(args.k.data) + 2;
  EXPECT_EQ(
      declines_tensors(args),
      "k's base lies at 2 mod 16; flashinfer takes multiples of 16 bytes, below 2^31 elements");
  args = dense_args();
  args.q.token_stride = 132;
  EXPECT_EQ(declines_tensors(args),
            "q's token stride is 132 elements; flashinfer takes multiples of 16 bytes, below 2^31 "
            "elements");
  args = dense_args();
  args.v.head_stride = std::int64_t{1} << 30;
  EXPECT_EQ(declines_tensors(args),
            "v's head stride is 1073741824 elements, of 2 heads; flashinfer takes multiples of 16 "
            "bytes, below 2^31 elements");
  args = dense_args();
  args.out.token_stride = 256;
  EXPECT_EQ(declines_tensors(args), "out must be dense, with strides 128 and 64; got 256 and 64");
}

StepTotals totals_of_rows(std::int64_t q, std::int64_t kv) {
  StepTotals totals{1, q, kv, q, kv};
  totals.q_extent = q;
  totals.kv_extent = kv;
  return totals;
}

TEST(FlashInferCopies, NoneAtAKernelsOwnHeadDim) {
  EXPECT_EQ(copies_of(problem_of(64), 64, totals_of_rows(1000, 1000)).bytes, 0U);
}

TEST(FlashInferCopies, HoldPaddedRowsOfEveryTensorUpToTheLastSegmentsEnd) {
  StepTotals totals = totals_of_rows(100, 300);
  totals.kv_extent = 400;
  const Copies copies = copies_of(problem_of(40, 3), 64, totals);
  EXPECT_EQ(copies.kv_heads, 2);
  EXPECT_EQ(copies.kv_rows, 400);
  EXPECT_GE(copies.k_at, std::size_t{100} * 6 * 64 * 2);
  EXPECT_GE(copies.v_at - copies.k_at, std::size_t{400} * 2 * 64 * 2);
  EXPECT_GE(copies.bytes - copies.out_at, std::size_t{100} * 6 * 64 * 2);
}

TEST(FlashInferCopies, TakeFewerKeyHeadsAtATimeToStayBelow64MiB) {
  Problem problem = problem_of(40);
  problem.num_qo_heads = problem.num_kv_heads = 16;
  const Copies copies = copies_of(problem, 64, totals_of_rows(20000, 20000));
  EXPECT_GE(copies.kv_heads, 1);
  EXPECT_LT(copies.kv_heads, 16);
  EXPECT_LE(copies.bytes, static_cast<std::size_t>(kCopyBytes));
}

TEST(FlashInferCopies, MoreThan64MiBForOneHeadAreRefusedWithTheNumbers) {
  EXPECT_EQ(
      refusal(ErrorCode::unsupported,
              [&] { copies_of(problem_of(40), 64, totals_of_rows(200000, 200000)); }),
      "head_dim 40 is padded to 64 in the workspace, in at most 67108864 bytes; 200000 queries "
      "and 200000 keys take 102400000 for one key head");
}

TEST(FlashInferCopies, OffsetsOnADeviceNeedACeiling) {
  StepTotals totals = totals_of_rows(1 << 20, 1 << 20);
  totals.bounded = false;
  EXPECT_EQ(refusal(ErrorCode::unsupported, [&] { copies_of(problem_of(40), 64, totals); }),
            "head_dim 40 is padded to 64 in the workspace: offsets on a device need "
            "max_total_tokens with it");
}

TEST(FlashInferSchedule, ArraysFollowTheStepsTableAndDoNotMeet) {
  const device::TableShape shape = device::table_shape(tiles(problem_of()), 5, 1000, true, 0, 2);
  const ScheduleLayout layout = schedule_layout(shape, 3);
  const auto units = static_cast<std::size_t>(shape.max_units);
  EXPECT_GE(layout.q_rows_at, device::table_layout(shape).bytes);
  EXPECT_GE(layout.kv_rows_at, layout.q_rows_at + 8 * units);
  EXPECT_GE(layout.requests_at, layout.kv_rows_at + 8 * units);
  EXPECT_GE(layout.zeros_at, layout.requests_at + 8 * units);
  EXPECT_GE(layout.chunk_keys_at, layout.zeros_at + 8 * units);
  EXPECT_GE(layout.valid_at, layout.chunk_keys_at + 8);
  EXPECT_GE(layout.bytes, layout.valid_at + 3 * units);
}

}  // namespace
}  // namespace ragged::fi
