// Planning step N+1 while step N runs.

#include <utility>

#include "manager_support.hpp"

namespace ragged::test {
namespace {

constexpr const char* kSlot0 =
    "slot 0 of bucket (graph_walk 'encode', bs 4, num_tokens 64, extra '')";
constexpr const char* kSlot1 =
    "slot 1 of bucket (graph_walk 'encode', bs 4, num_tokens 64, extra '')";

std::vector<float> run_main(RaggedAttentionManager& manager, const Tensors& t) {
  Tensor out = t.out;
  manager.run("main", t.q.view(), t.k.view(), t.v.view(), out.view());
  return out.values;
}

std::vector<float> alone(const Offsets& spans, const Tensors& t) {
  RaggedAttentionManager manager(self_spec());
  manager.plan(step_of(spans));
  return run_main(manager, t);
}

TEST(Preplan, NeedsALease) {
  RaggedAttentionManager manager(self_spec());
  EXPECT_EQ(refusal(ErrorCode::invalid_state, [&] { manager.preplan(step_of({3}), {}); }),
            "preplan of resource 'vision' needs a lease; none was given");
  EXPECT_FALSE(manager.preplan_pending());
}

TEST(Preplan, IsPromotedByItsOwnStepAlone) {
  RaggedAttentionManager manager(self_spec());
  manager.preplan(step_of({3, 4}), leased(1));
  EXPECT_TRUE(manager.preplan_pending());
  EXPECT_TRUE(manager.planned_labels().empty());  // not the current step yet
  const auto refused = [&](const AttentionStep& step, const PlanContext& context) {
    const std::string text =
        refusal(ErrorCode::invalid_state, [&] { manager.plan(step, context); });
    EXPECT_TRUE(manager.preplan_pending());
    EXPECT_TRUE(manager.planned_labels().empty());
    const std::string begin =
        "resource 'vision' has a pending preplan, and this step is not the one that was "
        "preplanned: ";
    const std::string end = "; clear_preplan drops it";
    EXPECT_EQ(text.substr(0, begin.size()), begin);
    return text.substr(begin.size(), text.size() - begin.size() - end.size());
  };
  EXPECT_EQ(refused(step_of({3, 5}), leased(1)), "label 'main' has other spans");
  EXPECT_EQ(refused(step_of({3, 4}, true), leased(1)), "causal is true, was false");
  EXPECT_EQ(refused(AttentionStep{.segments = segments_of("b", {3, 4})}, leased(1)),
            "label 'b' is in this step, not in the other step");
  EXPECT_EQ(refused(step_of({3, 4}), leased(0)),
            std::string("it has ") + kSlot0 + ", the preplan " + kSlot1);
  EXPECT_EQ(refused(step_of({3, 4}), {}), std::string("it has no lease, the preplan ") + kSlot1);
  manager.plan(step_of({3, 4}), leased(1));
  EXPECT_FALSE(manager.preplan_pending());
  EXPECT_EQ(manager.num_segments("main"), 2);
  const Tensors t(7);
  EXPECT_EQ(run_main(manager, t), alone({3, 4}, t));
}

TEST(Preplan, OnlyOneMayBePending) {
  RaggedAttentionManager manager(self_spec());
  manager.preplan(step_of({3}), leased(1));
  EXPECT_EQ(refusal(ErrorCode::invalid_state, [&] { manager.preplan(step_of({4}), leased(0)); }),
            std::string("resource 'vision' has a pending preplan for ") + kSlot1 +
                "; got a second one for " + kSlot0);
  manager.plan(step_of({3}), leased(1));
  manager.preplan(step_of({4}), leased(0));
  EXPECT_TRUE(manager.preplan_pending());
}

TEST(Preplan, LeavesTheCurrentStepAlone) {
  RaggedAttentionManager manager(self_spec());
  const Tensors t(64);
  manager.plan(step_of({10, 20}), leased(0));
  const Plan* current = &manager.plan_of("main");
  const std::vector<float> bits = run_main(manager, t);
  manager.preplan(step_of({40}), leased(1));
  EXPECT_EQ(&manager.plan_of("main"), current);
  EXPECT_EQ(manager.num_segments("main"), 2);
  EXPECT_EQ(run_main(manager, t), bits);
  EXPECT_EQ(bits, alone({10, 20}, t));
  manager.plan(step_of({40}), leased(1));
  EXPECT_EQ(run_main(manager, t), alone({40}, t));
}

TEST(Preplan, TakesTurnsBetweenTwoSlots) {
  RaggedAttentionManager manager(self_spec());
  const Tensors t(64);
  Offsets running = {1, 1};
  manager.plan(step_of(running), leased(0));
  for (int step = 1; step < 20; ++step) {
    const Offsets next = {step, 2 * step};
    manager.preplan(step_of(next), leased(step % 2));
    EXPECT_EQ(run_main(manager, t), alone(running, t));
    manager.plan(step_of(next), leased(step % 2));
    running = next;
  }
}

TEST(Preplan, OnTheSlotOfTheCurrentStepIsRefused) {
  RaggedAttentionManager manager(self_spec());
  manager.plan(step_of({10}), leased(0));
  EXPECT_EQ(refusal(ErrorCode::invalid_state, [&] { manager.preplan(step_of({3}), leased(0)); }),
            std::string("preplan of resource 'vision' needs a slot that the current step does not "
                        "run on; both have ") +
                kSlot0);
  EXPECT_EQ(manager.plan_of("main").layouts.q.total_tokens(), 10);
  manager.preplan(step_of({3}), leased(0, 2));  // another bucket has wrappers of its own
  EXPECT_EQ(manager.plan_of("main").layouts.q.total_tokens(), 10);
}

TEST(Preplan, BesideAnEagerStepIsFree) {
  RaggedAttentionManager manager(self_spec());
  manager.plan(step_of({10}));
  manager.preplan(step_of({3}), leased(0));
  EXPECT_EQ(manager.plan_of("main").layouts.q.total_tokens(), 10);
}

TEST(Preplan, ARefusedOneIsNotPending) {
  RaggedAttentionManager manager(self_spec());
  manager.plan(step_of({10}), leased(0));
  refusal(ErrorCode::out_of_range, [&] { manager.preplan(step_of({65}), leased(1)); });
  EXPECT_FALSE(manager.preplan_pending());
  EXPECT_EQ(manager.num_segments("main"), 1);  // the current step still runs
  manager.plan(step_of({11}), leased(0));
}

TEST(Preplan, ClearDropsIt) {
  RaggedAttentionManager manager(self_spec());
  manager.clear_preplan();  // none pending: nothing happens
  manager.preplan(step_of({3}), leased(1));
  manager.clear_preplan();
  EXPECT_FALSE(manager.preplan_pending());
  manager.plan(step_of({5}), leased(1));
  EXPECT_EQ(manager.plan_of("main").layouts.q.total_tokens(), 5);
}

TEST(Preplan, ServesPairsToo) {
  RaggedAttentionManager cross(RaggedCrossAttentionSpec{"cross", {}, small_config()});
  RaggedCrossAttentionStep step;
  step.segments = {{"r1", "q", 4}, {"r1", "kv", 5}};
  step.pairs = {{"q", "kv"}, {"kv", "q"}};
  cross.preplan(step, leased(0));
  RaggedCrossAttentionStep swapped = step;  // the order of pairs is no layout
  std::swap(swapped.pairs[0], swapped.pairs[1]);
  RaggedCrossAttentionStep other = step;
  other.pairs.pop_back();
  refusal(ErrorCode::invalid_state, [&] { cross.plan(other, leased(0)); });
  cross.plan(swapped, leased(0));
  EXPECT_EQ(cross.planned_labels().size(), 2U);

  RaggedAttentionManager prefixed(RaggedPrefixedAttentionSpec{"expert", {}, small_config()});
  RaggedPrefixedAttentionStep joined;
  joined.segments = step.segments;
  joined.pairs = {{"q", "kv"}};
  prefixed.preplan(joined, leased(0));
  RaggedPrefixedAttentionStep two_sources = joined;
  two_sources.two_sources = true;
  refusal(ErrorCode::invalid_state, [&] { prefixed.plan(two_sources, leased(0)); });
  prefixed.plan(joined, leased(0));
  EXPECT_EQ(prefixed.planned_labels(), (std::vector<std::string>{"q<-kv"}));
}

}  // namespace
}  // namespace ragged::test
