// The tile table of the portable GPU kernels, and its groups: rules that one launch serves.

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "backends/sm80/kernels.hpp"
#include "cut.hpp"
#include "unit/core/support.hpp"

namespace ragged::sm80 {
namespace {

Problem problem_of(AttentionKind kind, DType dtype, int head_dim, int group = 1) {
  Problem problem = test::problem_of(kind, 2 * group, 2, head_dim);
  problem.dtype = dtype;
  problem.block_size = kind == AttentionKind::block_causal ? 50 : 0;
  return problem;
}

std::vector<TileTable> all_tables() {
  std::vector<TileTable> tables;
  for (const AttentionKind kind :
       {AttentionKind::self, AttentionKind::cross, AttentionKind::block_causal}) {
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
      for (const int head_dim : {8, 32, 64, 72, 80, 128, 192, 256}) {
        const Problem problem = problem_of(kind, dtype, head_dim);
        if (declines(problem).empty()) {
          tables.push_back(tiles(problem, DeviceFacts::parse("h200")));
        }
      }
    }
  }
  return tables;
}

TEST(Sm80Tiles, GroupsHoldEveryRuleOnceInOrder) {
  const std::vector<TileTable> tables = all_tables();
  ASSERT_FALSE(tables.empty()) << "this build has no kernels";
  for (const TileTable& table : tables) {
    int next = 0;
    for_groups(table, [&](const RuleGroup& group) {
      EXPECT_EQ(group.first, next);
      EXPECT_GE(group.last, group.first);
      next = group.last + 1;
    });
    EXPECT_EQ(next, table.num_rules);
  }
}

// What a captured run launches, whatever the layout.
TEST(Sm80Tiles, OneGroupForEachKernel) {
  for (const TileTable& table : all_tables()) {
    std::set<int> variants;
    int groups = 0;
    for_groups(table, [&](const RuleGroup& group) {
      ++groups;
      bool splits = false;
      for (int rule = group.first; rule <= group.last; ++rule) {
        variants.insert(table.rules[rule].tile.variant);
        splits = splits || table.rules[rule].tile.split_keys > 0;
      }
      EXPECT_EQ(group.splits_keys, splits);
    });
    EXPECT_EQ(static_cast<int>(variants.size()), groups) << "two launches of one kernel";
    EXPECT_LE(groups, 5);
  }
}

// A rank's slice of the heads is cut as the whole is, so that its bits are the whole's.
TEST(Sm80Tiles, RulesDoNotKnowHowManyHeadsThereAre) {
  for (const int group : {1, 4, 7}) {
    Problem whole = problem_of(AttentionKind::self, DType::bf16, 64, group);
    Problem slice = whole;
    slice.num_kv_heads = 1;
    slice.num_qo_heads = group;
    const DeviceFacts device = DeviceFacts::parse("h200");
    if (!declines(whole).empty()) GTEST_SKIP() << declines(whole);
    const TileTable a = tiles(whole, device);
    const TileTable b = tiles(slice, device);
    for (const auto& [q_len, kv_len] : {std::tuple{1, 1},
                                        {1, 100000},
                                        {64, 64},
                                        {128, 5000},
                                        {129, 129},
                                        {4096, 77},
                                        {8192, 8192}}) {
      const Tile& x = a.rules[tile_rule(a, q_len, kv_len)].tile;
      const Tile& y = b.rules[tile_rule(b, q_len, kv_len)].tile;
      EXPECT_EQ(std::tie(x.variant, x.unit_rows, x.kv_rows, x.split_keys, x.heads),
                std::tie(y.variant, y.unit_rows, y.kv_rows, y.split_keys, y.heads))
          << q_len << " rows over " << kv_len << " keys";
    }
  }
}

}  // namespace
}  // namespace ragged::sm80
