#include "support.hpp"

namespace ragged {
namespace {

using test::expect_text;
using test::FakeBackend;

Plan sample() {
  static const FakeBackend gpu(RaggedAttnBackend::SM90, "device must be a \"GPU\"; got cpu");
  static FakeBackend backend;
  backend.tuning.tiles.num_rules = 2;
  backend.tuning.tiles.rules[1].tile = backend.tuning.tiles.rules[0].tile;
  backend.tuning.tiles.rules[0].max_q_length = 8;
  backend.tuning.workspace_bytes = 3072;
  const Backend* list[] = {&gpu, &backend};
  Problem problem = test::problem_of(AttentionKind::self, 4, 2, 64);
  problem.causal = true;
  Plan plan;
  make_plan(plan, problem, test::self_layouts({10, 3}), DeviceFacts::parse("cpu:scalar:2"), list,
            RaggedAttnBackend::AUTO, Ceilings{4, 64, 0});
  return plan;
}

TEST(PlanText, ExplainSaysWhatRunsAndWhy) {
  EXPECT_EQ(sample().explain(),
            "attention  self, causal; 4 query heads on 2 key heads, head_dim 64, bf16, sm_scale "
            "0.125\n"
            "layout     2 segments, 13 tokens (longest 10)\n"
            "ceilings   4 segments, 64 tokens; every choice is made on these\n"
            "device     cpu:scalar:2\n"
            "backend    cpu: the first in order of preference that serves it\n"
            "tiles      8 query rows x 16 keys, units of 32 rows, 1 head at once, kernel 0, for "
            "segments of at most 8 rows\n"
            "           8 query rows x 16 keys, units of 32 rows, 1 head at once, kernel 0\n"
            "work       2 units x 4 head groups = 8 items; 62.5 kflop, 19.5 KiB of q, k, v and "
            "out\n"
            "waste      45.8% of the rows and 84.1% of the scores that the tiles compute\n"
            "workspace  3.00 KiB\n"
            "others     sm90: device must be a \"GPU\"; got cpu\n");
  EXPECT_EQ(Plan().explain(), "no plan yet\n");
}

TEST(PlanText, ExplainSaysKeysPrefixesGapsAndAbsence) {
  const FakeBackend backend;
  const Backend* list[] = {&backend};
  Problem problem = test::problem_of(AttentionKind::prefixed);
  problem.two_sources = true;
  StepLayouts layouts;
  layouts.q.assign_spans({{5, 0}, {2, 1}}, "q");
  layouts.kv_is_q = true;
  layouts.prefix = test::layout_of({7, 1});
  Plan plan;
  make_plan(plan, problem, layouts, DeviceFacts::parse("h200"), list);
  const std::string text = plan.explain();
  expect_text(text, "prefixed, two sources; ");
  expect_text(text, "2 segments, 3 tokens (longest 2) in 7 rows, 11 keys of which 8 in prefixes\n");
  expect_text(text, "h200 (not the machine that this runs on)");
}

TEST(PlanText, JsonHoldsTheSameAndEscapes) {
  const std::string json = sample().to_json(true);
  EXPECT_EQ(
      json,
      R"({"problem": {"kind": "self", "num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 64, )"
      R"("sm_scale": 0.125, "dtype": "bf16", "causal": true, "block_size": 0, "two_sources": false}, )"
      R"("q": {"num_segments": 2, "total_tokens": 13, "extent": 13, "max_length": 10}, )"
      R"("kv": {"num_segments": 2, "total_tokens": 13, "extent": 13, "max_length": 10}, )"
      R"("prefix": null, "total_kv_tokens": 13, )"
      R"("ceilings": {"max_num_segments": 4, "max_total_tokens": 64, "max_total_kv_tokens": 0}, )"
      R"("device": "cpu:scalar:2", "present": true, "backend": "cpu", )"
      R"("choice_reason": "the first in order of preference that serves it", )"
      R"("declined": [{"backend": "sm90", "reason": "device must be a \"GPU\"; got cpu"}], )"
      R"("tiles": [{"max_q_length": 8, "max_kv_length": null, "q_rows": 8, "kv_rows": 16, )"
      R"("unit_rows": 32, "heads": 1, "variant": 0, "split_keys": 0, "row_step": 8, "key_step": 16}, )"
      R"({"max_q_length": null, "max_kv_length": null, )"
      R"("q_rows": 8, "kv_rows": 16, "unit_rows": 32, "heads": 1, "variant": 0, "split_keys": 0, "row_step": 8, "key_step": 16}], )"
      R"("num_units": 2, "items_per_unit": 4, "num_items": 8, "workspace_bytes": 3072, )"
      R"("flops": 62464, "bytes": 19968, "waste": {"rows_useful": 13, "rows_computed": 24, )"
      R"("scores_useful": 61, "scores_computed": 384}, )"
      R"("units": [{"segment": 0, "row_begin": 0, "rows": 10, "rule": 1}, )"
      R"({"segment": 1, "row_begin": 0, "rows": 3, "rule": 0}]})");
  EXPECT_EQ(sample().to_json().find("\"units\""), std::string::npos);
  EXPECT_EQ(Plan().to_json(), "null");
}

}  // namespace
}  // namespace ragged
