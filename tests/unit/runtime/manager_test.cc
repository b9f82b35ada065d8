// A resource: its config, its labels, eager and captured wrappers.

#include <algorithm>
#include <utility>

#include "manager_support.hpp"

namespace ragged::test {
namespace {

std::string constructor_refusal(const AnyRaggedSpec& spec, const EngineOptions& engine = {}) {
  return refusal(ErrorCode::invalid_argument,
                 [&] { const RaggedAttentionManager manager(spec, engine); });
}

TEST(ManagerConstructor, ResolvesTheDtype) {
  RaggedAttentionSpec spec = self_spec();
  EngineOptions engine;
  engine.dtype = DType::fp16;
  EXPECT_EQ(RaggedAttentionManager(spec, engine).config().dtype, DType::fp32);  // its own wins
  spec.config.dtype.reset();
  EXPECT_EQ(RaggedAttentionManager(spec, engine).config().dtype, DType::fp16);
  EXPECT_EQ(constructor_refusal(spec),
            "resource 'vision' has no activation dtype; set dtype in its RaggedAttentionConfig or "
            "in EngineOptions");
}

TEST(ManagerConstructor, ShardsFromTheUnshardedCounts) {
  RaggedAttentionSpec spec = self_spec();
  spec.config.num_qo_heads = 32;
  spec.config.num_kv_heads = 4;
  EngineOptions engine;
  engine.num_shards = 8;
  const RaggedAttentionManager manager(spec, engine);
  EXPECT_EQ(manager.config().num_qo_heads, 4);
  EXPECT_EQ(manager.config().num_kv_heads, 1);  // replicated
  RaggedAttentionSpec again = spec;
  again.config = manager.config();
  EXPECT_EQ(RaggedAttentionManager(again, engine).config(), manager.config());
  engine.num_shards = 1;  // no group: the slice stays
  EXPECT_EQ(RaggedAttentionManager(again, engine).config(), manager.config());
  EXPECT_EQ(spec.config.num_qo_heads, 32);  // the caller's spec is left alone
  engine.num_shards = 5;
  EXPECT_EQ(constructor_refusal(spec, engine), "num_qo_heads = 32 does not divide over 5 shards");
  engine.num_shards = 0;
  EXPECT_EQ(constructor_refusal(spec, engine), "num_shards must be at least 1; got 0");
}

TEST(ManagerConstructor, NamesWhatIsOutOfRange) {
  RaggedAttentionSpec spec = self_spec();
  spec.config.head_dim = 100;
  EXPECT_EQ(constructor_refusal(spec), "head_dim must be a multiple of 8 in 8..256; got 100");
  EngineOptions engine;
  engine.num_slots = 0;
  EXPECT_EQ(constructor_refusal(self_spec(), engine), "num_slots must be at least 1; got 0");
  const RaggedBlockCausalAttentionSpec block_causal{"blocks", {}, small_config(), 0};
  EXPECT_EQ(constructor_refusal(block_causal),
            "resource 'blocks': block_size must be at least 1; got 0");
}

TEST(ManagerConstructor, KnowsItsKind) {
  EXPECT_EQ(RaggedAttentionManager(self_spec()).kind(), AttentionKind::self);
  EXPECT_EQ(RaggedAttentionManager(RaggedCrossAttentionSpec{"c", {}, small_config()}).kind(),
            AttentionKind::cross);
  EXPECT_EQ(
      RaggedAttentionManager(RaggedBlockCausalAttentionSpec{"b", {}, small_config(), 8}).kind(),
      AttentionKind::block_causal);
  EXPECT_EQ(RaggedAttentionManager(RaggedPrefixedAttentionSpec{"p", {}, small_config()}).kind(),
            AttentionKind::prefixed);
  EXPECT_EQ(RaggedAttentionManager(self_spec()).resource_key(), "vision");
}

TEST(ManagerPlan, RunsEveryLabelOnItsOwnLayout) {
  RaggedAttentionManager manager(self_spec());
  AttentionStep step;
  step.causal = true;
  step.segments = {{"r1", "a", 3}, {"r1", "b", 5}, {"r2", "a", 4}, {"r2", "b", 0}};
  manager.plan(step);
  EXPECT_EQ(manager.planned_labels(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(manager.num_segments("a"), 2);
  EXPECT_EQ(manager.num_segments("b"), 2);  // the span of 0 counts
  const std::vector<std::pair<std::string, Offsets>> layouts = {{"a", {0, 3, 7}}, {"b", {0, 5, 5}}};
  for (const auto& [label, offsets] : layouts) {
    const Tensors t(offsets.back());
    Tensor truth = t.out;
    attend_plainly(t.q, t.k, t.v, truth, offsets, offsets, sees_causal);
    manager.run(label, t.q.view(), t.k.view(), t.v.view(), t.out.view());
    expect_close(t.out, truth);
  }
}

TEST(ManagerPlan, ALabelThatTheStepDoesNotDeclareCannotBeRun) {
  RaggedAttentionManager manager(self_spec());
  const Tensors t(4);
  const auto run = [&](const char* label) {
    manager.run(label, t.q.view(), t.k.view(), t.v.view(), t.out.view());
  };
  EXPECT_EQ(refusal(ErrorCode::not_planned, [&] { run("main"); }),
            "resource 'vision' has no plan of label 'main' in this step; planned: none");
  manager.plan(AttentionStep{.segments = segments_of("old", {4})});
  run("old");
  AttentionStep next;
  next.segments = {{"r1", "a", 4}, {"r1", "b", 4}};
  manager.plan(next);
  EXPECT_EQ(refusal(ErrorCode::not_planned, [&] { run("old"); }),
            "resource 'vision' has no plan of label 'old' in this step; planned: 'a', 'b'");
  EXPECT_EQ(refusal(ErrorCode::not_planned, [&] { (void)manager.num_segments("old"); }),
            "resource 'vision' has no plan of label 'old' in this step; planned: 'a', 'b'");
}

TEST(ManagerPlan, OnAThrowNoLabelIsPlanned) {
  RaggedAttentionManager manager(self_spec());
  const auto expect_nothing_planned_after = [&](ErrorCode code, const AttentionStep& step,
                                                const PlanContext& context) {
    manager.plan(step_of({3}));
    EXPECT_EQ(manager.planned_labels().size(), 1U);
    refusal(code, [&] { manager.plan(step, context); });
    EXPECT_TRUE(manager.planned_labels().empty());
  };
  expect_nothing_planned_after(ErrorCode::invalid_argument, step_of({-1}), {});
  expect_nothing_planned_after(ErrorCode::invalid_argument, AttentionStep{}, {});
  expect_nothing_planned_after(ErrorCode::out_of_range, step_of({65}), leased(0));
  manager.plan(step_of({3}));
  refusal(ErrorCode::invalid_argument, [&] { manager.plan(RaggedCrossAttentionStep{}); });
  EXPECT_TRUE(manager.planned_labels().empty());
}

TEST(ManagerPlan, TheStepTypeMustBeTheResourcesOwn) {
  RaggedAttentionManager self(self_spec());
  RaggedAttentionManager cross(RaggedCrossAttentionSpec{"c", {}, small_config()});
  RaggedAttentionManager prefixed(RaggedPrefixedAttentionSpec{"p", {}, small_config()});
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { self.plan(RaggedPrefixedAttentionStep{}); }),
            "resource 'vision' is self attention, declared with AttentionStep; got "
            "RaggedPrefixedAttentionStep");
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { cross.plan(AttentionStep{}); }),
            "resource 'c' is cross attention, declared with RaggedCrossAttentionStep; got "
            "AttentionStep");
  EXPECT_EQ(
      refusal(ErrorCode::invalid_argument, [&] { prefixed.plan(RaggedCrossAttentionStep{}); }),
      "resource 'p' is prefixed attention, declared with RaggedPrefixedAttentionStep; got "
      "RaggedCrossAttentionStep");
}

TEST(ManagerPlan, AStepWithoutSegmentsInheritsThem) {
  RaggedAttentionManager manager(self_spec());
  const std::vector<Segment> enclosing = segments_of("main", {2, 3});
  PlanContext context;
  context.inherited_segments = enclosing;
  manager.plan(AttentionStep{}, context);
  EXPECT_EQ(manager.num_segments("main"), 2);
  manager.plan(step_of({5}), context);  // its own win
  EXPECT_EQ(manager.num_segments("main"), 1);
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { manager.plan(AttentionStep{}); }),
            "the step of resource 'vision' gives no segments and inherits none; set segments or "
            "PlanContext::inherited_segments");
}

TEST(ManagerPlan, AStepOfNoSegmentsPlansNothing) {
  RaggedAttentionManager manager(self_spec());
  manager.plan(step_of({}));
  EXPECT_TRUE(manager.planned_labels().empty());
}

TEST(ManagerPlan, BlockCausalIsDeclaredNotCausal) {
  RaggedAttentionManager manager(RaggedBlockCausalAttentionSpec{"blocks", {}, small_config(), 4});
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { manager.plan(step_of({9}, true)); }),
            "resource 'blocks' is block_causal attention: causal must be false, the block "
            "structure is the whole mask; got true");
  const Tensors t(9);
  Tensor truth = t.out;
  attend_plainly(t.q, t.k, t.v, truth, {0, 9}, {0, 9},
                 [](std::int64_t row, std::int64_t, std::int64_t kv_len) {
                   return std::min((row / 4 + 1) * 4, kv_len);
                 });
  manager.plan(step_of({9}));
  manager.run("main", t.q.view(), t.k.view(), t.v.view(), t.out.view());
  expect_close(t.out, truth);
}

TEST(ManagerSlots, MustBeInRange) {
  RaggedAttentionManager manager(self_spec());
  PlanContext eager;
  eager.slot = 2;
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { manager.plan(step_of({3}), eager); }),
            "slot must be in 0..1 (num_slots = 2); got 2");
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { manager.plan(step_of({3}), leased(-1)); }),
            "lease.slot must be in 0..1 (num_slots = 2); got -1");
}

TEST(ManagerSlots, EagerWrappersAreKeyedByLabelAndSlot) {
  RaggedAttentionManager manager(self_spec());
  PlanContext second;
  second.slot = 1;
  manager.plan(step_of({3}));
  const Plan* first_plan = &manager.plan_of("main");
  EXPECT_FALSE(first_plan->ceilings.has_value());
  manager.plan(step_of({3}), second);
  EXPECT_NE(&manager.plan_of("main"), first_plan);
  manager.plan(step_of({3}));
  EXPECT_EQ(&manager.plan_of("main"), first_plan);
}

TEST(ManagerSlots, CapturedWrappersAreSizedByTheDeclaration) {
  RaggedAttentionSpec spec = self_spec();
  spec.config.max_segments_per_request = 3;
  RaggedAttentionManager manager(spec);
  manager.plan(step_of({3}), leased(0, 4, 64));
  EXPECT_EQ(manager.plan_of("main").ceilings, (Ceilings{12, 64, 64}));
  EXPECT_EQ(refusal(ErrorCode::out_of_range,
                    [&] {
                      manager.plan(step_of({60, 5}), leased(0, 4, 64));
                    }),
            "label 'main': 65 tokens exceed max_total_tokens = 64");
  EXPECT_EQ(refusal(ErrorCode::out_of_range,
                    [&] { manager.plan(step_of(Offsets(13, 1)), leased(0, 4, 64)); }),
            "label 'main': 13 segments exceed max_num_segments = 12");
  spec.config.max_tokens_per_request = 20;
  RaggedAttentionManager declared(spec);
  declared.plan(step_of({3}), leased(0, 4, 64));
  EXPECT_EQ(declared.plan_of("main").ceilings, (Ceilings{12, 80, 80}));
  declared.plan(step_of({3}), leased(0, 2, 64));
  EXPECT_EQ(declared.plan_of("main").ceilings, (Ceilings{6, 64, 64}));
}

TEST(ManagerSlots, CapturedWrappersAreKeyedByBucketSlotAndLabel) {
  RaggedAttentionManager manager(self_spec());
  const auto plan_at = [&](const PlanContext& context, const std::string& label) {
    manager.plan(AttentionStep{.segments = segments_of(label, {3})}, context);
    return &manager.plan_of(label);
  };
  const Plan* first = plan_at(leased(0), "a");
  EXPECT_NE(plan_at(leased(1), "a"), first);
  EXPECT_NE(plan_at(leased(0), "b"), first);
  EXPECT_NE(plan_at(leased(0, 2), "a"), first);
  PlanContext extra = leased(0);
  extra.lease->bucket.extra = "64x64";
  EXPECT_NE(plan_at(extra, "a"), first);
  EXPECT_NE(plan_at({}, "a"), first);
  EXPECT_EQ(plan_at(leased(0), "a"), first);
}

TEST(ManagerSlots, ABucketNeedsRequestsAndTokens) {
  RaggedAttentionManager manager(self_spec());
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { manager.plan(step_of({3}), leased(0, 0)); }),
            "lease.bucket.bs must be at least 1; got 0");
  EXPECT_EQ(
      refusal(ErrorCode::invalid_argument, [&] { manager.plan(step_of({3}), leased(0, 1, 0)); }),
      "lease.bucket.num_tokens must be at least 1 where the config has no "
      "max_tokens_per_request; got 0");
}

TEST(ManagerSlots, AReplayHasTheEagerBits) {
  RaggedAttentionManager manager(self_spec());
  for (const Offsets& spans : {Offsets{4, 6, 8}, Offsets{5, 5, 8, 0}, Offsets{64}, Offsets{1}}) {
    const Tensors t(64);
    Tensor eager = t.out;
    Tensor replayed = t.out;
    manager.plan(step_of(spans, true));
    manager.run("main", t.q.view(), t.k.view(), t.v.view(), eager.view());
    manager.plan(step_of(spans, true), leased(1));
    manager.run("main", t.q.view(), t.k.view(), t.v.view(), replayed.view());
    EXPECT_EQ(replayed.values, eager.values);
  }
}

TEST(ManagerCallable, RunsItsLabelUnderEveryStep) {
  RaggedAttentionManager manager(self_spec());
  const RaggedAttentionCallable attend = manager.callable("main");
  EXPECT_EQ(attend.label(), "main");
  const Tensors t(6);
  EXPECT_EQ(refusal(ErrorCode::not_planned,
                    [&] { attend(t.q.view(), t.k.view(), t.v.view(), t.out.view()); }),
            "resource 'vision' has no plan of label 'main' in this step; planned: none");
  for (const Offsets& spans : {Offsets{2, 4}, Offsets{6}}) {
    manager.plan(step_of(spans));
    Tensor truth = t.out;
    const Offsets offsets = spans.size() == 1 ? Offsets{0, 6} : Offsets{0, 2, 6};
    attend_plainly(t.q, t.k, t.v, truth, offsets, offsets, sees_all);
    attend(t.q.view(), t.k.view(), t.v.view(), t.out.view());
    expect_close(t.out, truth);
  }
}

TEST(Manager, MovesWithItsStep) {
  RaggedAttentionManager first(self_spec());
  first.plan(step_of({2, 4}));
  RaggedAttentionManager second(std::move(first));
  EXPECT_EQ(second.num_segments("main"), 2);
  // NOLINTBEGIN(bugprone-use-after-move): what a moved-from manager answers is tested here.
  EXPECT_FALSE(first.preplan_pending());
  first.clear_preplan();
  EXPECT_EQ(refusal(ErrorCode::invalid_state, [&] { first.plan(step_of({1})); }),
            "this manager was moved from");
  EXPECT_EQ(refusal(ErrorCode::invalid_state, [&] { (void)first.resource_key(); }),
            "this manager was moved from");
  EXPECT_EQ(refusal(ErrorCode::invalid_state, [&] { (void)first.kind(); }),
            "this manager was moved from");
  EXPECT_EQ(refusal(ErrorCode::invalid_state, [&] { (void)first.config(); }),
            "this manager was moved from");
  // NOLINTEND(bugprone-use-after-move)
}

}  // namespace
}  // namespace ragged::test
