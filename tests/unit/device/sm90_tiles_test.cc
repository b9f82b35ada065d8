// The tile table of the Hopper kernels, and which of its rules one launch serves.

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "backends/sm90/kernels.hpp"
#include "cut.hpp"
#include "unit/core/support.hpp"

namespace ragged::sm90 {
namespace {

Problem problem_of(AttentionKind kind, int head_dim, int group = 1) {
  Problem problem = test::problem_of(kind, 2 * group, 2, head_dim);
  problem.block_size = kind == AttentionKind::block_causal ? 50 : 0;
  return problem;
}

std::vector<Problem> all_problems() {
  std::vector<Problem> problems;
  for (const AttentionKind kind : {AttentionKind::self, AttentionKind::cross,
                                   AttentionKind::prefixed, AttentionKind::block_causal}) {
    for (const int head_dim : {32, 64, 72, 80, 96, 128, 256}) {
      for (const int group : {1, 4, 7, 65}) problems.push_back(problem_of(kind, head_dim, group));
    }
  }
  return problems;
}

TileTable table_of(const Problem& problem) { return tiles(problem, DeviceFacts::parse("h200")); }

// What a captured run launches, whatever the layout.
TEST(Sm90Tiles, OneLaunchForEachKernel) {
  for (const Problem& problem : all_problems()) {
    ASSERT_EQ(declines(problem), "");
    const TileTable table = table_of(problem);
    std::set<int> variants;
    int launches = 0;
    int next = 0;
    while (next < table.num_rules) {
      const Rules rules = rules_from(table, next);
      EXPECT_EQ(rules.teams < 0 ? rules.last : rules.teams, next);
      for (; next <= rules.last; ++next) {
        variants.insert(table.rules[next].tile.variant);
        EXPECT_EQ(table.rules[next].tile.variant, table.rules[rules.last].tile.variant);
      }
      ++launches;
    }
    EXPECT_EQ(next, table.num_rules);
    EXPECT_EQ(static_cast<int>(variants.size()), launches) << "two launches of one kernel";
    EXPECT_LE(launches, 3);
  }
}

TEST(Sm90Tiles, TheLastRuleHoldsEveryLength) {
  for (const Problem& problem : all_problems()) {
    const TileTable table = table_of(problem);
    ASSERT_GT(table.num_rules, 0);
    const TileRule& last = table.rules[table.num_rules - 1];
    EXPECT_EQ(last.max_q_length, TileRule{}.max_q_length);
    EXPECT_EQ(last.max_kv_length, TileRule{}.max_kv_length);
  }
}

// Units are whole tiles of 64 rows, of which heads of a key head share each.
TEST(Sm90Tiles, TilesAreWhole) {
  for (const Problem& problem : all_problems()) {
    const TileTable table = table_of(problem);
    for (int i = 0; i < table.num_rules; ++i) {
      const Tile& tile = table.rules[i].tile;
      EXPECT_LE(tile.q_rows * tile.heads, 64);
      EXPECT_GT((tile.q_rows + 1) * tile.heads, 64);
      EXPECT_EQ(tile.unit_rows % tile.q_rows, 0);
      EXPECT_EQ(problem.group() % tile.heads, 0);
      EXPECT_EQ(tile.split_keys, 0) << "no workspace is asked for";
    }
  }
}

// Few rows over long keys: a tile is a unit, where no mask hides keys.
TEST(Sm90Tiles, TeamsTakeFewRows) {
  for (const Problem& problem : all_problems()) {
    const TileTable table = table_of(problem);
    const int tiles_of_teams = problem.head_dim == 256 ? 8 : 2;
    const int most = tiles_of_teams * (64 / table.rules[0].tile.heads);
    const auto unit_tiles = [&](std::int64_t q_len) {
      const Tile& tile = table.rules[tile_rule(table, q_len, 100000)].tile;
      return tile.unit_rows / tile.q_rows;
    };
    const bool may =
        problem.kind == AttentionKind::cross || problem.kind == AttentionKind::prefixed;
    EXPECT_EQ(unit_tiles(1) == 1, may);
    EXPECT_EQ(unit_tiles(most) == 1, may);
    EXPECT_GT(unit_tiles(most + 1), 1);
    Problem causal = problem;
    causal.causal = problem.kind == AttentionKind::prefixed;
    if (!causal.causal) continue;
    const TileTable masked = table_of(causal);
    EXPECT_GT(masked.rules[tile_rule(masked, 1, 100000)].tile.unit_rows,
              masked.rules[0].tile.q_rows);
  }
}

// A rank's slice of the heads is cut as the whole is, so that its bits are the whole's.
TEST(Sm90Tiles, RulesDoNotKnowHowManyHeadsThereAre) {
  for (const Problem& whole : all_problems()) {
    Problem slice = whole;
    slice.num_kv_heads = 1;
    slice.num_qo_heads = whole.group();
    EXPECT_EQ(table_of(whole), table_of(slice));
  }
}

TEST(Sm90Tiles, DeclinesByName) {
  EXPECT_NE(declines(problem_of(AttentionKind::self, 192)).find("192"), std::string::npos);
  Problem fp32 = problem_of(AttentionKind::self, 64);
  fp32.dtype = DType::fp32;
  EXPECT_NE(declines(fp32).find("fp32"), std::string::npos);
}

}  // namespace
}  // namespace ragged::sm90
