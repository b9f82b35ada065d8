// Random layouts and tile tables: the work list holds every row of every segment exactly once, by
// falling cost, and its figures are the sums over rows.

#include <bit>
#include <cstdlib>
#include <map>

#include "cut.hpp"
#include "support.hpp"

namespace ragged {
namespace {

using Random = std::mt19937_64;

std::int64_t uniform(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

// Lengths with many repeats, empties and a few long ones, as real steps have them.
std::vector<std::int64_t> random_lengths(Random& random, std::int64_t count) {
  std::vector<std::int64_t> lengths;
  while (std::ssize(lengths) < count) {
    const std::int64_t kind = uniform(random, 0, 4);
    if (kind == 0 && !lengths.empty()) {
      lengths.push_back(lengths.back());
    } else {
      lengths.push_back(kind == 1 ? 0 : uniform(random, 0, kind == 2 ? 400 : 12));
    }
  }
  return lengths;
}

TileTable random_tiles(Random& random, int group) {
  TileTable table;
  table.num_rules = static_cast<std::int32_t>(uniform(random, 1, kMaxTileRules));
  const auto heads = static_cast<std::int32_t>(uniform(random, 0, 1) == 0 ? 1 : group);
  for (int i = 0; i < table.num_rules; ++i) {
    const auto q_rows = static_cast<std::int32_t>(uniform(random, 1, 20));
    const auto kv_rows = static_cast<std::int32_t>(uniform(random, 1, 40));
    const auto unit_rows = q_rows * static_cast<std::int32_t>(uniform(random, 1, 5));
    table.rules[i].tile = {q_rows, kv_rows, unit_rows, heads, 0};
    if (i + 1 == table.num_rules) break;
    if (uniform(random, 0, 1) == 0) table.rules[i].max_q_length = uniform(random, 0, 200);
    if (uniform(random, 0, 1) == 0) table.rules[i].max_kv_length = uniform(random, 0, 200);
  }
  return table;
}

struct Case {
  Problem problem;
  StepLayouts layouts;
};

Layout random_layout(Random& random, std::int64_t count) {
  const std::vector<std::int64_t> lengths = random_lengths(random, count);
  if (uniform(random, 0, 3) != 0) return test::layout_of(lengths);
  std::vector<std::int64_t> starts;
  std::int64_t at = uniform(random, 0, 5);
  for (const std::int64_t length : lengths) {
    starts.push_back(at);
    at += length + uniform(random, 0, 3);
  }
  Layout layout;
  layout.assign_spans({starts, lengths}, "q");
  return layout;
}

Case random_case(Random& random) {
  Case c;
  const auto kind = static_cast<AttentionKind>(uniform(random, 0, 3));
  const int kv_heads = static_cast<int>(uniform(random, 1, 3));
  const int group = static_cast<int>(uniform(random, 1, 4));
  c.problem = test::problem_of(kind, kv_heads * group, kv_heads, 8);
  const std::int64_t count = uniform(random, 0, 30);
  c.layouts.q = random_layout(random, count);
  c.layouts.kv_is_q = true;
  if (kind == AttentionKind::block_causal) c.problem.block_size = uniform(random, 1, 60);
  if (kind == AttentionKind::self) c.problem.causal = uniform(random, 0, 1) == 0;
  if (kind == AttentionKind::cross || kind == AttentionKind::prefixed) {
    c.layouts.kv = random_layout(random, count);
    c.layouts.kv_is_q = false;
  }
  if (kind == AttentionKind::prefixed) {
    c.problem.causal = uniform(random, 0, 1) == 0;
    c.problem.two_sources = uniform(random, 0, 1) == 0;
    if (c.problem.two_sources) {
      c.layouts.kv_is_q = uniform(random, 0, 1) == 0;
      c.layouts.prefix = random_layout(random, count);
    }
  }
  return c;
}

void check(const Plan& plan) {
  const Mask mask = mask_of(plan.problem);
  std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
  Waste expected;
  double cost_before = std::numeric_limits<double>::infinity();
  std::uint64_t bucket_before = 0;
  std::pair<std::int64_t, std::int64_t> place_before;
  for (const WorkUnit& unit : plan.units) {
    ASSERT_GE(unit.rows, 1);
    const std::int64_t q_len = plan.layouts.q.length(unit.segment);
    const std::int64_t kv_len = plan.layouts.kv_length(unit.segment);
    ASSERT_EQ(unit.rule, tile_rule(plan.tiles, q_len, kv_len));
    const Tile& tile = plan.tiles.rules[unit.rule].tile;
    ASSERT_LE(unit.rows, tile.unit_rows);
    ASSERT_EQ(unit.row_begin % tile.q_rows, 0) << "a unit starts inside a tile";
    double cost = unit.rows;
    for (std::int64_t row = unit.row_begin; row < unit.row_begin + unit.rows; ++row) {
      ++seen[{unit.segment, row}];
      const std::int64_t visible = visible_end(mask, row, q_len, kv_len);
      cost += static_cast<double>(visible);
      expected.scores_useful += static_cast<double>(visible);
      ++expected.rows_useful;
    }
    // In buckets of an eighth: never more than an eighth above the one before.
    ASSERT_LE(cost, cost_before * 1.125);
    cost_before = cost;
    // In one bucket, the order of segments and rows.
    const std::uint64_t bucket = std::bit_cast<std::uint64_t>(cost) >> (52 - 3);
    const std::pair place{unit.segment, unit.row_begin};
    ASSERT_TRUE(bucket != bucket_before || place > place_before) << unit.segment;
    bucket_before = bucket;
    place_before = place;
  }
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < plan.layouts.q.num_segments(); ++i) {
    for (std::int64_t row = 0; row < plan.layouts.q.length(i); ++row) {
      ++rows;
      ASSERT_EQ((seen[{i, row}]), 1) << "segment " << i << " row " << row;
    }
  }
  ASSERT_EQ(static_cast<std::int64_t>(seen.size()), rows);
  const Waste waste = plan.waste();
  ASSERT_EQ(waste.rows_useful, expected.rows_useful);
  ASSERT_EQ(waste.scores_useful, expected.scores_useful);
  ASSERT_GE(waste.rows_computed, waste.rows_useful);
  ASSERT_GE(waste.scores_computed, waste.scores_useful);
  ASSERT_EQ(plan.flops(),
            4.0 * expected.scores_useful * plan.problem.num_qo_heads * plan.problem.head_dim);
  ASSERT_EQ(plan.num_items() * plan.tiles.rules[0].tile.heads,
            std::ssize(plan.units) * plan.problem.num_qo_heads);
}

// A segment's units with their rules; independent of the neighbours.
std::vector<WorkUnit> units_of_segment(const Plan& plan, std::int64_t segment) {
  std::vector<WorkUnit> units;
  for (const WorkUnit& unit : plan.units) {
    if (unit.segment == segment) units.push_back(unit);
  }
  std::sort(units.begin(), units.end(),
            [](const WorkUnit& a, const WorkUnit& b) { return a.row_begin < b.row_begin; });
  for (WorkUnit& unit : units) unit.segment = 0;
  return units;
}

std::uint64_t first_seed() {
  const char* text = std::getenv("RAGGED_TEST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

TEST(PlanProperty, EveryRowOnceByFallingCost) {
  const bool chosen = std::getenv("RAGGED_TEST_SEED") != nullptr;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + (chosen ? 1 : 400); ++seed) {
    Random random(seed);
    const Case c = random_case(random);
    test::FakeBackend backend;
    backend.tuning.tiles = random_tiles(random, c.problem.group());
    SCOPED_TRACE("reproduce: RAGGED_TEST_SEED=" + std::to_string(seed) +
                 " core_test --gtest_filter=PlanProperty.EveryRowOnceByFallingCost");
    check(test::plan_with(backend, c.problem, c.layouts));
    if (HasFatalFailure()) return;
  }
}

TEST(PlanProperty, ASegmentIsCutTheSameAmongAnyNeighbours) {
  Random random(7);
  test::FakeBackend backend;
  for (int round = 0; round < 100; ++round) {
    backend.tuning.tiles = random_tiles(random, 2);
    const Problem problem = test::problem_of(AttentionKind::cross);
    const std::int64_t q = uniform(random, 1, 300);
    const std::int64_t kv = uniform(random, 0, 300);
    const Plan alone = test::plan_with(backend, problem, test::pair_layouts({q}, {kv}));
    const Plan among =
        test::plan_with(backend, problem, test::pair_layouts({9, 300, q, 1}, {300, 0, kv, 17}));
    ASSERT_EQ(units_of_segment(alone, 0), units_of_segment(among, 2)) << q << " by " << kv;
  }
}

}  // namespace
}  // namespace ragged
