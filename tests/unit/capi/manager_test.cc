#include "capi_test.hpp"

namespace capi_test {
namespace {

ragged_config fp32_config() {
  ragged_config config = sized<ragged_config>();
  config.num_qo_heads = config.num_kv_heads = kHeads;
  config.head_dim = kHeadDim;
  config.dtype = RAGGED_DTYPE_FP32;
  return config;
}

Handle<ragged_manager> make_manager(ragged_kind kind, const ragged_config& config,
                                    std::int64_t block_size = 0) {
  const char* const nodes[] = {"encoder"};
  ragged_spec spec = sized<ragged_spec>();
  spec.resource_key = "vision";
  spec.nodes = nodes;
  spec.num_nodes = 1;
  spec.config = &config;
  spec.kind = kind;
  spec.block_size = block_size;
  ragged_manager* manager = nullptr;
  EXPECT_OK(ragged_manager_create(&spec, nullptr, &manager));
  return Handle<ragged_manager>(manager);
}

ragged_segment segment(const char* request_id, std::int64_t span, const char* label = nullptr) {
  ragged_segment s = sized<ragged_segment>();
  s.request_id = request_id;
  s.label = label;
  s.span = span;
  return s;
}

ragged_label_pair pair(const char* q_label, const char* kv_label) {
  ragged_label_pair p = sized<ragged_label_pair>();
  p.q_label = q_label;
  p.kv_label = kv_label;
  return p;
}

// A step over segments and pairs that it keeps.
struct Step {
  std::vector<ragged_segment> segments;
  std::vector<ragged_label_pair> pairs;
  ragged_step step = sized<ragged_step>();

  Step(std::int32_t type, std::vector<ragged_segment> given,
       std::vector<ragged_label_pair> given_pairs = {})
      : segments(std::move(given)), pairs(std::move(given_pairs)) {
    step.type = type;
    step.has_segments = 1;
    step.segments = segments.data();
    step.num_segments = segments.size();
    step.pairs = pairs.data();
    step.num_pairs = pairs.size();
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
};

ragged_slot_lease lease_of(std::int32_t slot, std::int64_t bs, std::int64_t num_tokens) {
  ragged_slot_lease lease = sized<ragged_slot_lease>();
  lease.graph_walk = "decode";
  lease.bs = bs;
  lease.num_tokens = num_tokens;
  lease.slot = slot;
  return lease;
}

ragged_plan_context leased(const ragged_slot_lease& lease) {
  ragged_plan_context context = sized<ragged_plan_context>();
  context.lease = &lease;
  return context;
}

std::int64_t num_segments(const ragged_manager* manager, const char* label) {
  std::int64_t count = -1;
  EXPECT_OK(ragged_manager_num_segments(manager, label, &count));
  return count;
}

std::vector<std::string> planned_labels(const ragged_manager* manager) {
  std::size_t count = 0;
  EXPECT_OK(ragged_manager_num_planned_labels(manager, &count));
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < count; ++i) {
    labels.push_back(text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
      return ragged_manager_planned_label(manager, i, buffer, capacity, length);
    }));
  }
  return labels;
}

TEST(CapiManager, ALabelsSegmentsAreItsLayout) {
  const auto manager = make_manager(RAGGED_KIND_SELF, fp32_config());
  const Step step(RAGGED_STEP_ATTENTION,
                  {segment("a", 3), segment("a", 2, "audio"), segment("b", 0), segment("c", 2)});
  ASSERT_OK(ragged_manager_plan(manager.get(), &step.step, nullptr));
  EXPECT_EQ(num_segments(manager.get(), "main"), 3);  // zero spans count
  EXPECT_EQ(num_segments(manager.get(), "audio"), 1);
  EXPECT_EQ(planned_labels(manager.get()).size(), 2U);
  KnownStep main(5, 5);
  ASSERT_OK(ragged_manager_run(manager.get(), "main", &main.arguments));
  main.expect_row(2, 1.0, 3);
  main.expect_row(4, 3.5, 2);
  KnownStep audio(2, 2);
  ASSERT_OK(ragged_manager_run(manager.get(), "audio", &audio.arguments));
  audio.expect_row(0, 0.5, 2);

  // A label that the next step does not declare cannot be run.
  const Step other(RAGGED_STEP_ATTENTION, {segment("a", 3)});
  ASSERT_OK(ragged_manager_plan(manager.get(), &other.step, nullptr));
  expect_refused(ragged_manager_run(manager.get(), "audio", &audio.arguments),
                 RAGGED_ERROR_NOT_PLANNED, "audio");
  EXPECT_NE(std::string(ragged_last_error()).find("main"), std::string::npos);
  std::int64_t count = 0;
  expect_refused(ragged_manager_num_segments(manager.get(), "audio", &count),
                 RAGGED_ERROR_NOT_PLANNED, "audio");
  const ragged_plan* plan = nullptr;
  expect_refused(ragged_manager_plan_of(manager.get(), "audio", &plan), RAGGED_ERROR_NOT_PLANNED,
                 "audio");
}

TEST(CapiManager, CausalAndInheritedSegments) {
  const auto manager = make_manager(RAGGED_KIND_SELF, fp32_config());
  Step step(RAGGED_STEP_ATTENTION, {});
  step.step.has_segments = 0;
  step.step.causal = 1;
  const std::vector<ragged_segment> enclosing = {segment("a", 3)};
  ragged_plan_context context = sized<ragged_plan_context>();
  context.inherited_segments = enclosing.data();
  context.num_inherited_segments = enclosing.size();
  ASSERT_OK(ragged_manager_plan(manager.get(), &step.step, &context));
  KnownStep known(3, 3);
  ASSERT_OK(ragged_manager_run(manager.get(), "main", &known.arguments));
  known.expect_row(1, 0.5, 2);
}

TEST(CapiManager, CrossRunsUnderThePairsLabel) {
  const auto manager = make_manager(RAGGED_KIND_CROSS, fp32_config());
  const Step step(RAGGED_STEP_CROSS,
                  {segment("a", 2, "video"), segment("b", 1, "video"), segment("a", 3, "text"),
                   segment("b", 4, "text")},
                  {pair("video", "text")});
  ASSERT_OK(ragged_manager_plan(manager.get(), &step.step, nullptr));
  EXPECT_EQ(planned_labels(manager.get()), std::vector<std::string>{"video<-text"});
  KnownStep known(3, 7);
  ASSERT_OK(ragged_manager_run(manager.get(), "video<-text", &known.arguments));
  known.expect_row(1, 1.0, 3);
  known.expect_row(2, 4.5, 4);

  const Step other_order(RAGGED_STEP_CROSS,
                         {segment("a", 2, "video"), segment("b", 1, "video"),
                          segment("b", 3, "text"), segment("a", 4, "text")},
                         {pair("video", "text")});
  expect_invalid(ragged_manager_plan(manager.get(), &other_order.step, nullptr), "");
}

TEST(CapiManager, PrefixedOfTwoSources) {
  const auto manager = make_manager(RAGGED_KIND_PREFIXED, fp32_config());
  Step step(RAGGED_STEP_PREFIXED, {segment("a", 3, "prefix"), segment("a", 2, "fresh")},
            {pair("fresh", "prefix")});
  step.step.causal = 1;
  step.step.two_sources = 1;
  ASSERT_OK(ragged_manager_plan(manager.get(), &step.step, nullptr));
  const KnownStep frozen(3, 3, 10.0F);
  KnownStep fresh(2, 2, 20.0F);
  fresh.arguments.prefix_k = frozen.arguments.k;
  fresh.arguments.prefix_v = frozen.arguments.v;
  ASSERT_OK(ragged_manager_run(manager.get(), "fresh<-prefix", &fresh.arguments));
  fresh.expect_row(0, (10 + 11 + 12 + 20) / 4.0, 4);
  fresh.expect_row(1, (10 + 11 + 12 + 20 + 21) / 5.0, 5);
}

TEST(CapiManager, BlockCausal) {
  const auto manager = make_manager(RAGGED_KIND_BLOCK_CAUSAL, fp32_config(), 2);
  Step step(RAGGED_STEP_ATTENTION, {segment("a", 3)});
  ASSERT_OK(ragged_manager_plan(manager.get(), &step.step, nullptr));
  KnownStep known(3, 3);
  ASSERT_OK(ragged_manager_run(manager.get(), "main", &known.arguments));
  known.expect_row(0, 0.5, 2);
  known.expect_row(2, 1.0, 3);
  step.step.causal = 1;
  expect_invalid(ragged_manager_plan(manager.get(), &step.step, nullptr), "causal");
}

TEST(CapiManager, PreplanIsPromotedForItsStepAlone) {
  const auto manager = make_manager(RAGGED_KIND_SELF, fp32_config());
  const Step next(RAGGED_STEP_ATTENTION, {segment("a", 2), segment("b", 3)});
  const Step another(RAGGED_STEP_ATTENTION, {segment("a", 3), segment("b", 2)});
  const ragged_slot_lease lease = lease_of(1, 2, 16);
  const ragged_plan_context context = leased(lease);
  const auto pending = [&] {
    std::int32_t value = -1;
    EXPECT_OK(ragged_manager_preplan_pending(manager.get(), &value));
    return value;
  };

  expect_refused(ragged_manager_preplan(manager.get(), &next.step, nullptr),
                 RAGGED_ERROR_INVALID_STATE, "lease");
  EXPECT_EQ(pending(), 0);
  ASSERT_OK(ragged_manager_preplan(manager.get(), &next.step, &context));
  EXPECT_EQ(pending(), 1);
  expect_refused(ragged_manager_preplan(manager.get(), &next.step, &context),
                 RAGGED_ERROR_INVALID_STATE, "");
  expect_refused(ragged_manager_plan(manager.get(), &another.step, &context),
                 RAGGED_ERROR_INVALID_STATE, "");
  EXPECT_EQ(pending(), 1);
  ASSERT_OK(ragged_manager_plan(manager.get(), &next.step, &context));
  EXPECT_EQ(pending(), 0);
  KnownStep known(5, 5);
  ASSERT_OK(ragged_manager_run(manager.get(), "main", &known.arguments));
  known.expect_row(1, 0.5, 2);

  // The step runs on slot 1 now; the next one is planned on the other slot.
  const ragged_slot_lease other_lease = lease_of(0, 2, 16);
  const ragged_plan_context other = leased(other_lease);
  expect_refused(ragged_manager_preplan(manager.get(), &next.step, &context),
                 RAGGED_ERROR_INVALID_STATE, "slot 1");
  ASSERT_OK(ragged_manager_preplan(manager.get(), &next.step, &other));
  ASSERT_OK(ragged_manager_clear_preplan(manager.get()));
  ASSERT_OK(ragged_manager_clear_preplan(manager.get()));  // without one, nothing happens
  EXPECT_EQ(pending(), 0);
  ASSERT_OK(ragged_manager_plan(manager.get(), &another.step, &other));
}

TEST(CapiManager, ABucketsCeilings) {
  const auto manager = make_manager(RAGGED_KIND_SELF, fp32_config());
  const ragged_slot_lease lease = lease_of(0, 2, 6);
  const ragged_plan_context context = leased(lease);
  const Step fits(RAGGED_STEP_ATTENTION, {segment("a", 2), segment("b", 4)});
  ASSERT_OK(ragged_manager_plan(manager.get(), &fits.step, &context));
  const Step too_long(RAGGED_STEP_ATTENTION, {segment("a", 3), segment("b", 4)});
  expect_refused(ragged_manager_plan(manager.get(), &too_long.step, &context),
                 RAGGED_ERROR_OUT_OF_RANGE, "7");
  const Step too_many(RAGGED_STEP_ATTENTION, {segment("a", 1), segment("b", 1), segment("c", 1)});
  expect_refused(ragged_manager_plan(manager.get(), &too_many.step, &context),
                 RAGGED_ERROR_OUT_OF_RANGE, "3");
}

TEST(CapiManager, SaysWhatItHolds) {
  ragged_config config = fp32_config();
  config.dtype = RAGGED_DTYPE_NONE;
  config.num_qo_heads = config.num_kv_heads = 2 * kHeads;
  ragged_spec spec = sized<ragged_spec>();
  spec.resource_key = "vision";
  spec.config = &config;
  ragged_manager* raw = nullptr;
  expect_invalid(ragged_manager_create(&spec, nullptr, &raw), "vision");  // no dtype anywhere
  EXPECT_EQ(raw, nullptr);
  ragged_engine_options engine = sized<ragged_engine_options>();
  engine.dtype = RAGGED_DTYPE_FP32;
  engine.num_shards = 2;
  ASSERT_OK(ragged_manager_create(&spec, &engine, &raw));
  const Handle<ragged_manager> manager(raw);
  EXPECT_EQ(text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
              return ragged_manager_resource_key(manager.get(), buffer, capacity, length);
            }),
            "vision");
  ragged_kind kind = -1;
  EXPECT_OK(ragged_manager_kind(manager.get(), &kind));
  EXPECT_EQ(kind, RAGGED_KIND_SELF);
  ragged_config resolved = sized<ragged_config>();
  ASSERT_OK(ragged_manager_config(manager.get(), &resolved));
  EXPECT_EQ(resolved.dtype, RAGGED_DTYPE_FP32);
  EXPECT_EQ(resolved.num_qo_heads, kHeads);
  EXPECT_EQ(resolved.unsharded_num_qo_heads, 2 * kHeads);
  EXPECT_STREQ(resolved.flashinfer_backend, "auto");

  engine.num_shards = 3;
  expect_invalid(ragged_manager_create(&spec, &engine, &raw), "num_qo_heads");
  engine.num_shards = -1;
  expect_invalid(ragged_manager_create(&spec, &engine, &raw), "num_shards");
}

TEST(CapiManager, StepsAreRefusedByName) {
  const auto manager = make_manager(RAGGED_KIND_SELF, fp32_config());
  const auto refused = [&](auto&& change, const std::string& part) {
    Step step(RAGGED_STEP_ATTENTION, {segment("a", 3)}, {pair("a", "b")});
    step.step.num_pairs = 0;
    change(step);
    expect_invalid(ragged_manager_plan(manager.get(), &step.step, nullptr), part);
  };
  refused([](Step& s) { s.step.type = 3; }, "step->type");
  refused([](Step& s) { s.step.num_pairs = 1; }, "step->num_pairs must be 0");
  refused([](Step& s) { s.step.two_sources = 1; }, "step->two_sources must be 0");
  refused([](Step& s) { s.step.causal = 2; }, "step->causal must be 0 or 1");
  refused([](Step& s) { s.step.has_segments = 0; }, "step->has_segments must be 1");
  refused([](Step& s) { s.step.segments = nullptr; }, "segments");
  refused([](Step& s) { s.segments[0].request_id = nullptr; }, "segments[0].request_id");
  refused([](Step& s) { s.segments[0].span = -1; }, "-1");
  refused([](Step& s) { s.step.type = RAGGED_STEP_CROSS; }, "");  // not the resource's own
  refused(
      [](Step& s) {
        s.step.type = RAGGED_STEP_CROSS;
        s.step.causal = 1;
      },
      "step->causal must be 0 for RAGGED_STEP_CROSS");
  refused(
      [](Step& s) {
        s.step.type = RAGGED_STEP_PREFIXED;
        s.step.num_pairs = 1;
        s.pairs[0].kv_label = nullptr;
      },
      "kv_label");

  ragged_slot_lease lease = lease_of(0, 1, 8);
  ragged_plan_context context = leased(lease);
  const Step step(RAGGED_STEP_ATTENTION, {segment("a", 3)});
  lease.reserved = 1;
  expect_invalid(ragged_manager_plan(manager.get(), &step.step, &context), "lease->reserved");
  lease.reserved = 0;
  lease.struct_size = 3;
  expect_invalid(ragged_manager_plan(manager.get(), &step.step, &context), "lease->struct_size");
  context.lease = nullptr;
  context.reserved = 1;
  expect_invalid(ragged_manager_plan(manager.get(), &step.step, &context), "context->reserved");
  context.reserved = 0;
  context.slot = -1;
  expect_invalid(ragged_manager_plan(manager.get(), &step.step, &context), "slot");
}

}  // namespace
}  // namespace capi_test
