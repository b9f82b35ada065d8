// The table of a step is the host's work list, unit for unit: what the prologue computes on a
// device, computed here.

#include <algorithm>
#include <map>
#include <tuple>

#include "device/place.hpp"
#include "support.hpp"

namespace ragged {
namespace {

using device::Unit;
using test::HostTable;
using test::Random;
using test::RandomStep;
using test::TableBackend;

using Range = std::tuple<std::int64_t, std::int64_t, std::int32_t, std::int32_t>;

device::TableShape shape_of(const RandomStep& step, std::int64_t slots) {
  const std::int32_t groups = step.problem.num_qo_heads / step.tiles.rules[0].tile.heads;
  return device::table_shape(step.tiles, step.layouts.q.num_segments(),
                             step.layouts.q.total_tokens(), true, slots, groups);
}

void expect_rows(const Unit& unit, const StepLayouts& layouts) {
  const std::int64_t i = unit.segment;
  ASSERT_EQ(unit.q_begin, layouts.q.begin(i));
  ASSERT_EQ(unit.q_len, layouts.q.length(i));
  ASSERT_EQ(unit.kv_begin, layouts.keys().begin(i));
  ASSERT_EQ(unit.kv_len, layouts.kv_length(i));
  const bool prefixed = layouts.prefix.num_segments() > 0;
  ASSERT_EQ(unit.prefix_begin, prefixed ? layouts.prefix.begin(i) : 0);
  ASSERT_EQ(unit.prefix_len, prefixed ? layouts.prefix.length(i) : 0);
}

// Units of rows of one rule, each once however many pieces its keys are in.
std::vector<Range> ranges_of(const HostTable& table, std::int32_t rule) {
  std::vector<Range> ranges;
  for (const Unit& unit : table.units(rule)) {
    if (unit.chunk == 0) ranges.emplace_back(unit.segment, unit.row_begin, unit.rows, rule);
  }
  return ranges;
}

TEST(Table, HoldsTheWorkListOfTheHost) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const RandomStep step = test::random_step(random, true);
    const std::int64_t slots = random.chance(50) ? 0 : random.integer(1, 400);
    HostTable table(shape_of(step, slots));
    const Plan plan = test::plan_with(TableBackend(step.tiles), step.problem, step.layouts);
    table.make(plan, {}, slots);
    ASSERT_EQ(table.header().fault, device::OffsetFault::none);
    ASSERT_EQ(table.header().num_segments, step.layouts.q.num_segments());

    std::vector<Range> expected;
    for (const WorkUnit& unit :
         test::plan_with(TableBackend(step.tiles, false), step.problem, step.layouts).units) {
      expected.emplace_back(unit.segment, unit.row_begin, unit.rows, unit.rule);
    }
    std::vector<Range> found;
    std::int32_t next = 0;
    for (std::int32_t rule = 0; rule < kMaxTileRules; ++rule) {
      ASSERT_EQ(table.header().first_unit[rule], next);
      next += table.header().num_units[rule];
      const std::vector<Range> ranges = ranges_of(table, rule);
      ASSERT_EQ(std::ssize(ranges), plan.rule_units[static_cast<std::size_t>(rule)]);
      found.insert(found.end(), ranges.begin(), ranges.end());
      for (const Unit& unit : table.units(rule)) {
        ASSERT_NO_FATAL_FAILURE(expect_rows(unit, step.layouts));
      }
    }
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found, expected);
    ASSERT_LE(table.num_entries(), shape_of(step, slots).max_entries);
  }
}

TEST(Table, CostFallsWithinARule) {
  std::int64_t steps_down = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const RandomStep step = test::random_step(random, true);
    HostTable table(shape_of(step, 0));
    const Plan plan = test::plan_with(TableBackend(step.tiles), step.problem, step.layouts);
    table.make(plan);
    for (std::int32_t rule = 0; rule < kMaxTileRules; ++rule) {
      double before = std::numeric_limits<double>::max();
      for (const Unit& unit : table.units(rule)) {
        const double cost = visible_scores(mask_of(step.problem), unit.row_begin,
                                           unit.row_begin + unit.rows, unit.q_len, unit.kv_len) +
                            unit.rows;
        // Within a bucket costs come in any order: a quarter of a power of two.
        ASSERT_LT(cost, 1.25 * before);
        steps_down += cost < before ? 1 : 0;
        before = cost;
      }
    }
  }
  EXPECT_GT(steps_down, 1000);
}

// Every piece of every unit once, with slots of its own; in turn where there is no room.
TEST(Table, SplitKeysAreWholeAndShareNoSlot) {
  std::int64_t beside = 0;
  std::int64_t in_turn = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const RandomStep step = test::random_step(random, false);
    const std::int64_t slots = random.integer(0, 600);
    const std::int32_t groups = step.problem.num_qo_heads / step.tiles.rules[0].tile.heads;
    HostTable table(shape_of(step, slots));
    table.make(test::plan_with(TableBackend(step.tiles), step.problem, step.layouts), {}, slots);
    std::vector<int> used(static_cast<std::size_t>(slots));
    for (std::int32_t rule = 0; rule < step.tiles.num_rules; ++rule) {
      const std::int64_t split = step.tiles.rules[rule].tile.split_keys;
      std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Unit>> pieces;
      for (const Unit& unit : table.units(rule)) {
        const bool is_split = split > 0 && unit.kv_len > split;
        ASSERT_EQ(unit.num_chunks, is_split ? (unit.kv_len + split - 1) / split : 1);
        pieces[{unit.segment, unit.row_begin}].push_back(unit);
        for (std::int32_t slot = unit.partial; slot >= 0 && slot < unit.partial + groups; ++slot) {
          ASSERT_LT(slot, slots);
          ASSERT_EQ(used[static_cast<std::size_t>(slot)]++, 0);
        }
      }
      for (auto& [where, units] : pieces) {
        std::sort(units.begin(), units.end(),
                  [](const Unit& a, const Unit& b) { return a.chunk < b.chunk; });
        if (units[0].partial < 0) {
          ASSERT_EQ(units.size(), 1U);
          in_turn += units[0].num_chunks > 1 ? 1 : 0;
          continue;
        }
        ++beside;
        ASSERT_EQ(std::ssize(units), units[0].num_chunks);
        for (std::int32_t i = 0; i < std::ssize(units); ++i) {
          ASSERT_EQ(units[static_cast<std::size_t>(i)].chunk, i);
          ASSERT_EQ(units[static_cast<std::size_t>(i)].partial, units[0].partial + i * groups);
        }
      }
    }
  }
  EXPECT_GT(beside, 100);
  EXPECT_GT(in_turn, 100);
}

// Where units alone keep every block busy, none is split; a lone one is.
TEST(Table, SplitsOnlyWhereUnitsAreFew) {
  TileTable tiles;
  tiles.num_rules = 1;
  tiles.rules[0].tile = {.q_rows = 16, .kv_rows = 64, .unit_rows = 16, .split_keys = 512};
  Problem problem;
  problem.kind = AttentionKind::cross;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  for (const std::int64_t segments : {1, 63, 64}) {
    StepLayouts layouts;
    layouts.q = test::layout_of(std::vector<std::int64_t>(static_cast<std::size_t>(segments), 1));
    layouts.kv =
        test::layout_of(std::vector<std::int64_t>(static_cast<std::size_t>(segments), 1500));
    HostTable table(device::table_shape(tiles, segments, segments, true, 64, 1));
    table.make(test::plan_with(TableBackend(tiles), problem, layouts), {}, 64);
    const std::int64_t split = segments == 64 ? 0 : std::min<std::int64_t>(segments, 64 / 3);
    EXPECT_EQ(table.num_entries(), segments + 2 * split) << segments;
  }
}

TEST(Table, AStepWithoutSegmentsHasNoUnits) {
  Random random(1);
  RandomStep step = test::random_step(random, false);
  step.layouts = {};
  step.layouts.kv_is_q = true;
  step.problem.kind = AttentionKind::self;
  step.problem.block_size = 0;
  step.problem.two_sources = false;
  HostTable table(device::table_shape(step.tiles, 4, 100, true, 0, 1));
  table.make(test::plan_with(TableBackend(step.tiles), step.problem, step.layouts));
  EXPECT_EQ(table.num_entries(), 0);
  EXPECT_EQ(table.header().fault, device::OffsetFault::none);
}

}  // namespace
}  // namespace ragged
