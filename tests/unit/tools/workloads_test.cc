#include "workloads.hpp"

#include <cmath>
#include <numeric>
#include <set>

#include "refusal.hpp"

namespace ragged::tools {
namespace {

std::int64_t total(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

TEST(Workloads, TheSuitesAreWhole) {
  EXPECT_EQ(suite("cpu").size(), 9U);
  EXPECT_EQ(suite("models").size(), 46U);
  std::set<std::string> names;
  for (const char* name : {"cpu", "models"}) {
    for (const Workload& workload : suite(name)) {
      EXPECT_TRUE(names.insert(workload.name).second) << workload.name << " comes twice";
      EXPECT_FALSE(workload.q_lengths.empty()) << workload.name;
    }
  }
  EXPECT_TRUE(holds(refusal([] { (void)suite("gpu"); }), "expected cpu or models, got 'gpu'"));
}

TEST(Workloads, RunLengthsAreExpanded) {
  const Workload& window = find_workload("qwen25vl-window");
  EXPECT_EQ(window.q_lengths.size(), 100U);
  EXPECT_EQ(total(window.q_lengths), 81 * 64 + 18 * 16 + 4);
  EXPECT_EQ(window.problem.head_dim, 80);
  EXPECT_EQ(window.problem.dtype, DType::bf16);
  EXPECT_DOUBLE_EQ(window.problem.sm_scale, 1 / std::sqrt(80.0));
  EXPECT_EQ(window.layers, 28);
}

TEST(Workloads, KeysGoWhereTheKindHasThem) {
  const Workload& cross = find_workload("W8");
  EXPECT_EQ(cross.kv_lengths, (std::vector<std::int64_t>{1500, 1, 700, 1499, 0, 64, 1500, 3}));
  EXPECT_TRUE(cross.prefix_lengths.empty());
  const Workload& prefixed = find_workload("W9");
  EXPECT_EQ(prefixed.prefix_lengths, (std::vector<std::int64_t>(4, 968)));
  EXPECT_TRUE(prefixed.kv_lengths.empty());
  EXPECT_EQ(find_workload("W7").problem.block_size, 50);
  EXPECT_TRUE(find_workload("W6").problem.causal);
}

TEST(Workloads, AnUnknownNameGetsTheNearest) {
  EXPECT_TRUE(holds(refusal([] { (void)find_workload("siglip-9"); }), "siglip-8"));
  EXPECT_TRUE(holds(refusal([] { (void)find_workload(""); }), "got ''"));
}

TEST(Workloads, GoalsLieAboveTheirFloors) {
  int goals = 0;
  for (const Workload& workload : suite("models")) {
    const auto goal = h200_goal(workload.name);
    if (!goal) continue;
    ++goals;
    EXPECT_LT(goal->floor_us, goal->goal_us) << workload.name;
    EXPECT_LE(goal->goal_us, goal->best_peer_us) << workload.name;
  }
  EXPECT_EQ(goals, 45);
  EXPECT_FALSE(h200_goal("W1").has_value());
}

// One workload with a field replaced.
std::string with(const std::string& field, const std::string& value) {
  std::string text = "[{";
  const std::vector<std::pair<std::string, std::string>> fields = {
      {"name", R"("a")"},      {"kind", R"("self")"},  {"num_qo_heads", "4"},
      {"num_kv_heads", "2"},   {"head_dim", "64"},     {"dtype", R"("fp32")"},
      {"causal", "false"},     {"block_size", "null"}, {"q_segments", "[[2, 5]]"},
      {"kv_segments", "null"}, {"layers", "1"},        {"model", R"("m")"}};
  for (const auto& [name, ordinary] : fields) {
    if (name == field && value.empty()) continue;
    text += (text.size() > 2 ? ", \"" : "\"") + name + "\": " + (name == field ? value : ordinary);
  }
  return text + "}]";
}

TEST(ParseWorkloads, NamesWhatIsWrong) {
  EXPECT_EQ(parse_workloads(with("", ""), "f").at(0).q_lengths, (std::vector<std::int64_t>{5, 5}));
  const auto text = [](const std::string& json) {
    return refusal([&] { (void)parse_workloads(json, "f.json"); });
  };
  EXPECT_TRUE(holds(text("{"), "f.json: expected JSON"));
  EXPECT_TRUE(holds(text("{}"), "f.json: expected a list"));
  EXPECT_TRUE(holds(text("[7]"), "f.json[0]: expected an object"));
  EXPECT_TRUE(holds(text(with("name", "")), "'name' is missing"));
  EXPECT_TRUE(holds(text(with("kind", R"("sparse")")), "sparse"));
  EXPECT_TRUE(
      holds(text(with("num_qo_heads", "-4")), "f.json[0] 'a': num_qo_heads: expected a count"));
  EXPECT_TRUE(holds(text(with("num_kv_heads", "3")), "3"));
  EXPECT_TRUE(holds(text(with("head_dim", "100")), "100"));
  EXPECT_TRUE(holds(text(with("causal", "1")), "causal: expected true or false, got 1"));
  EXPECT_TRUE(
      holds(text(with("q_segments", "[5]")), "q_segments: expected a list of [count, tokens]"));
  EXPECT_TRUE(holds(text(with("q_segments", "[[99999999, 1]]")), "at most"));
  EXPECT_TRUE(holds(text(with("kv_segments", "[[2, 5]]")), "expected 0 segments, got 2"));
}

}  // namespace
}  // namespace ragged::tools
