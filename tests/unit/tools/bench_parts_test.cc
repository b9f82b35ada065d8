// What `ragged bench` is made of, but for the times themselves.

#include <nlohmann/json.hpp>

#include "backends/contract.hpp"
#include "bench_report.hpp"
#include "measure.hpp"
#include "progress.hpp"
#include "refusal.hpp"
#include "timing.hpp"

namespace ragged::tools {
namespace {

TEST(Timing, TheMedianAndTheSpread) {
  EXPECT_DOUBLE_EQ(median({3}), 3);
  EXPECT_DOUBLE_EQ(median({9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 100}), 3);
  EXPECT_DOUBLE_EQ(spread({1, 2, 3}), 0);
  EXPECT_DOUBLE_EQ(spread({10, 10, 10, 10, 10}), 0);
  // Quartiles 2 and 4 around 3; the outlier does not count.
  EXPECT_DOUBLE_EQ(spread({1, 2, 3, 4, 1000}), 2.0 / 3);
}

TEST(Progress, FillsTheLine) {
  EXPECT_EQ(progress_line(0, 4, "W1", 80), "[--------------------] 0/4 W1");
  EXPECT_EQ(progress_line(2, 4, "W3", 80), "[##########----------] 2/4 W3");
  EXPECT_EQ(progress_line(4, 4, "", 80), "[####################] 4/4 ");
  EXPECT_EQ(progress_line(0, 0, "", 80), "[####################] 0/0 ");
  EXPECT_EQ(progress_line(2, 4, "W3", 10).size(), 10U);
}

Case small_case() {
  CaseOptions o;
  o.lengths = std::vector<std::int64_t>{5, 12};
  o.num_qo_heads = 2;
  o.head_dim = 16;
  return build_case(o);
}

Plan reference_plan(const Case& c) {
  Plan plan;
  make_plan(plan, c.problem, c.layouts(), DeviceFacts::host(1), built_backends(),
            RaggedAttnBackend::REFERENCE);
  return plan;
}

TEST(Measure, RowsAddUp) {
  const Case c = small_case();
  const Plan plan = reference_plan(c);
  int runs = 0;
  const Provider provider = {.name = "ragged/reference", .version = "", .run = [&](const auto& a) {
                               ++runs;
                               run(plan, a);
                             }};
  MeasureSettings settings;
  settings.seconds = 0;
  settings.rotate_bytes = static_cast<std::int64_t>(3 * plan.bytes());
  const BenchRow row = measure(c, plan, provider, settings);
  EXPECT_TRUE(row.right());
  EXPECT_EQ(row.samples, 3);
  EXPECT_EQ(row.input_sets, 3);
  EXPECT_EQ(runs, 1 + 3 + 3 * row.runs_per_sample);
  EXPECT_GT(row.us, 0);
  EXPECT_LE(row.us_min, row.us);
  EXPECT_GE(row.us_max, row.us);
  EXPECT_NEAR(row.gflops * row.us * 1e3, plan.flops(), 1e-6 * plan.flops());
  EXPECT_NEAR(row.gbps * row.us * 1e3, plan.bytes(), 1e-6 * plan.bytes());
  EXPECT_GT(row.peak_gflops, 0);
}

TEST(Measure, AWrongAnswerHasNoTime) {
  const Case c = small_case();
  const Plan plan = reference_plan(c);
  const Provider idle = {.name = "idle", .version = "", .run = [](const RunArguments&) {}};
  const BenchRow row = measure(c, plan, idle, {});
  EXPECT_FALSE(row.right());
  EXPECT_EQ(row.samples, 0);
  EXPECT_TRUE(holds(table_line(row), "WRONG"));
}

TEST(BenchReport, HasTheFieldsThatPlotsRead) {
  BenchRow row;
  row.workload = "W1";
  row.provider = "ragged/cpu";
  row.us = 12.5;
  row.gflops = 100;
  row.percent_of_peak = 80;
  const std::string text = report_json(R"({"cores": 2})", {}, {row, row});
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("machine").at("cores"), 2);
  ASSERT_EQ(json.at("rows").size(), 2U);
  const auto& first = json.at("rows").at(0);
  for (const char* field : {"workload", "provider", "threads", "dtype", "us", "us_min", "us_max",
                            "spread", "gflops", "percent_of_peak", "peak_gflops", "gbps", "samples",
                            "input_sets", "max_error", "tolerance"}) {
    EXPECT_TRUE(first.contains(field)) << field;
  }
  EXPECT_EQ(first.at("us"), 12.5);
  EXPECT_FALSE(first.contains("version"));
  EXPECT_EQ(nlohmann::json::parse(report_json("{}", {}, {})).at("rows").size(), 0U);
}

TEST(BenchTable, ItsLinesHaveTheHeadingsWidth) {
  BenchRow row;
  row.workload = "qwen25vl-window-video";
  row.provider = "ragged/reference";
  EXPECT_EQ(table_line(row).size(), table_heading().size());
  row.samples = 1;
  EXPECT_FALSE(holds(table_line(row), "%"));  // one sample has no spread
  row.samples = 2;
  EXPECT_EQ(table_line(row).size(), table_heading().size());
  EXPECT_TRUE(holds(table_line(row), "%"));
}

}  // namespace
}  // namespace ragged::tools
