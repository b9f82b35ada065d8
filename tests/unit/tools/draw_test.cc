#include "draw.hpp"

#include "backends/contract.hpp"
#include "refusal.hpp"
#include "svg.hpp"

namespace ragged::tools {
namespace {

// A plan whose tiles are 4 x 3, so that a picture's numbers can be counted by hand.
Plan hand_plan(const Case& c) {
  Plan plan;
  make_plan(plan, c.problem, c.layouts(), DeviceFacts::parse("cpu:scalar:1"), built_backends());
  plan.tiles = TileTable{};
  plan.tiles.num_rules = 1;
  plan.tiles.rules[0].tile = {.q_rows = 4, .kv_rows = 3, .unit_rows = 8, .heads = 1, .variant = 0};
  plan.units.clear();
  for (std::size_t s = 0; s < c.q_lengths.size(); ++s) {
    for (std::int64_t row = 0; row < c.q_lengths[s]; row += 8) {
      plan.units.push_back(
          {.row_begin = row,
           .rows = static_cast<std::int32_t>(std::min<std::int64_t>(8, c.q_lengths[s] - row)),
           .rule = 0,
           .segment = static_cast<std::int64_t>(s)});
    }
  }
  plan.num_units = std::ssize(plan.units);
  return plan;
}

Case causal_case() {
  CaseOptions o;
  o.lengths = std::vector<std::int64_t>{10, 0, 2};
  o.causal = true;
  return build_case(o);
}

TEST(PictureSegments, PanelsWalkToTheLastKeySeen) {
  const Case c = causal_case();
  const std::vector<SegmentPicture> pictures = picture_segments(c, hand_plan(c), 8);
  ASSERT_EQ(pictures.size(), 3U);
  const auto& panels = pictures[0].panels;
  ASSERT_EQ(panels.size(), 3U);
  EXPECT_EQ(panels[0].keys, 6);  // rows 0..3 see at most 4 keys: two steps of 3
  EXPECT_EQ(panels[1].keys, 9);
  EXPECT_EQ(panels[2].keys, 12);  // rows 8, 9 see 10
  EXPECT_TRUE(panels[0].begins_unit);
  EXPECT_FALSE(panels[1].begins_unit);
  EXPECT_TRUE(panels[2].begins_unit);
  EXPECT_EQ(pictures[0].rows(), 12);
  EXPECT_EQ(pictures[0].keys(), 12);
  EXPECT_TRUE(pictures[1].panels.empty());
  EXPECT_EQ(pictures[2].visible_end, (std::vector<std::int64_t>{1, 2}));
}

// The area that the panels cover and the rows' intervals leave is what Plan::waste counts.
TEST(PictureSegments, AgreesWithThePlansWaste) {
  const Case c = causal_case();
  Plan plan = hand_plan(c);
  for (const std::int32_t step : {0, 1, 2}) {
    plan.tiles.rules[0].tile.row_step = plan.tiles.rules[0].tile.key_step = step;
    double computed = 0;
    double useful = 0;
    for (const SegmentPicture& picture : picture_segments(c, plan, 64)) {
      for (const auto& panel : picture.panels) {
        computed += static_cast<double>(panel.rows * panel.keys);
      }
      for (const std::int64_t end : picture.visible_end) useful += static_cast<double>(end);
    }
    EXPECT_EQ(computed, plan.waste().scores_computed) << step;
    EXPECT_EQ(useful, plan.waste().scores_useful) << step;
  }
}

TEST(Draw, SaysWhatItShows) {
  const Case c = causal_case();
  const std::string svg = draw(c, hand_plan(c), 2);
  EXPECT_EQ(svg.rfind("<svg xmlns", 0), 0U);
  EXPECT_TRUE(holds(svg, "lengths: self causal, 3 segments, 12 tokens"));
  EXPECT_TRUE(holds(svg, "tiles of 4 x 3 (query rows x keys)"));
  EXPECT_TRUE(holds(svg, "(the first 2 of 3)"));
  EXPECT_TRUE(holds(svg, "in a tile, in vain"));
  EXPECT_TRUE(holds(svg, "segment 0: 10 tokens"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Draw, NothingIsAPictureToo) {
  CaseOptions o;
  o.lengths = std::vector<std::int64_t>{};
  const Case c = build_case(o);
  EXPECT_TRUE(holds(draw(c, hand_plan(c), 8), "no tiles"));
  o.lengths = std::vector<std::int64_t>{0, 0};
  const Case empty = build_case(o);
  EXPECT_EQ(draw(empty, hand_plan(empty), 8).find("nan"), std::string::npos);
}

TEST(Draw, APrefixHasItsOwnColour) {
  CaseOptions o;
  o.lengths = std::vector<std::int64_t>{4};
  o.prefix_lengths = std::vector<std::int64_t>{6};
  const Case c = build_case(o);
  EXPECT_TRUE(holds(draw(c, hand_plan(c), 8), "key of the prefix"));
  EXPECT_TRUE(holds(draw(c, hand_plan(c), 8), ">6 + 4"));
}

TEST(Svg, EscapesWords) {
  Svg svg;
  svg.text({1, 2}, "start", 12, "a < b & 'c'");
  EXPECT_TRUE(holds(svg.str(10, 10, ""), "a &lt; b &amp; &#39;c&#39;"));
}

}  // namespace
}  // namespace ragged::tools
