// Cross and prefixed resources: pairs of labels.

#include <algorithm>

#include "manager_support.hpp"

namespace ragged::test {
namespace {

RaggedAttentionManager cross_manager() {
  return RaggedAttentionManager(RaggedCrossAttentionSpec{"cross", {}, small_config()});
}

RaggedAttentionManager prefixed_manager() {
  return RaggedAttentionManager(RaggedPrefixedAttentionSpec{"expert", {}, small_config()});
}

std::vector<Segment> two_labels() {
  return {{"r1", "video", 4}, {"r2", "video", 5}, {"r1", "text", 2}, {"r2", "text", 0}};
}

TEST(CrossManager, RunsEachPairUnderItsLabel) {
  RaggedAttentionManager manager = cross_manager();
  manager.plan(RaggedCrossAttentionStep{.segments = two_labels(),
                                        .pairs = {{"video", "text"}, {"text", "video"}}});
  EXPECT_EQ(manager.planned_labels(), (std::vector<std::string>{"video<-text", "text<-video"}));
  EXPECT_EQ(manager.num_segments(cross_label("video", "text")), 2);
  const Tensors video(9, 2);
  Tensor truth = video.out;
  attend_plainly(video.q, video.k, video.v, truth, {0, 4, 9}, {0, 2, 2}, sees_all);
  const RaggedAttentionCallable attend = manager.callable(cross_label("video", "text"));
  attend(video.q.view(), video.k.view(), video.v.view(), video.out.view());
  expect_close(video.out, truth);  // r2 has no keys: zeros
  EXPECT_EQ(refusal(ErrorCode::not_planned, [&] { (void)manager.num_segments("video"); }),
            "resource 'cross' has no plan of label 'video' in this step; planned: 'video<-text', "
            "'text<-video'");
}

TEST(CrossManager, RefusesWhatDoesNotPair) {
  RaggedAttentionManager manager = cross_manager();
  RaggedCrossAttentionStep step{.segments = two_labels(), .pairs = {{"video", "text"}}};
  step.segments->at(2).request_id = "r3";
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { manager.plan(step); }),
            "pairs[0]: label 'video' and label 'text' must list the same requests in the same "
            "order; segment 0 is of request 'r1' in the first, of 'r3' in the second");
  step = {.segments = two_labels(), .pairs = {{"video", "audio"}}};
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { manager.plan(step); }),
            "pairs[0] names label 'audio', which no segment declares; declared: 'video', 'text'");
  EXPECT_TRUE(manager.planned_labels().empty());
}

TEST(CrossManager, InheritsItsSegments) {
  RaggedAttentionManager manager = cross_manager();
  const std::vector<Segment> enclosing = two_labels();
  PlanContext context;
  context.inherited_segments = enclosing;
  manager.plan(RaggedCrossAttentionStep{.pairs = {{"text", "video"}}}, context);
  EXPECT_EQ(manager.plan_of("text<-video").layouts.kv.total_tokens(), 9);
}

TEST(PairedManagers, RefuseSegmentsWithoutAPair) {
  RaggedAttentionManager cross = cross_manager();
  EXPECT_EQ(refusal(ErrorCode::invalid_argument,
                    [&] { cross.plan(RaggedCrossAttentionStep{.segments = two_labels()}); }),
            "pairs must name at least one pair of labels, for a step without would plan nothing; "
            "got none beside 4 segments");
  RaggedAttentionManager prefixed = prefixed_manager();
  refusal(ErrorCode::invalid_argument,
          [&] { prefixed.plan(RaggedPrefixedAttentionStep{.segments = two_labels()}); });
  // No request at all this step: nothing to pair, nothing to plan.
  cross.plan(RaggedCrossAttentionStep{.segments = std::vector<Segment>{}});
  EXPECT_TRUE(cross.planned_labels().empty());
}

TEST(CrossManager, TheKeysOfABucketHaveTheQueriesCeiling) {
  RaggedAttentionManager manager = cross_manager();
  RaggedCrossAttentionStep step{.segments = two_labels(), .pairs = {{"text", "video"}}};
  manager.plan(step, leased(0, 2, 9));
  EXPECT_EQ(manager.plan_of("text<-video").ceilings, (Ceilings{2, 9, 9}));
  step.segments->at(0).span = 5;
  EXPECT_EQ(refusal(ErrorCode::out_of_range, [&] { manager.plan(step, leased(0, 2, 9)); }),
            "label 'video': 10 key tokens exceed max_total_tokens = 9");
}

TEST(CrossManager, ReplaysWithTheEagerBits) {
  RaggedAttentionManager manager = cross_manager();
  const RaggedCrossAttentionStep step{.segments = two_labels(), .pairs = {{"video", "text"}}};
  const Tensors t(9, 2);
  Tensor eager = t.out;
  Tensor replayed = t.out;
  manager.plan(step);
  manager.run("video<-text", t.q.view(), t.k.view(), t.v.view(), eager.view());
  manager.plan(step, leased(0));
  manager.run("video<-text", t.q.view(), t.k.view(), t.v.view(), replayed.view());
  EXPECT_EQ(replayed.values, eager.values);
}

// Two requests, prefixes of 3 and 0 tokens, 2 and 4 fresh ones.
std::vector<Segment> prefixed_segments() {
  return {{"r1", "prefix", 3}, {"r2", "prefix", 0}, {"r1", "action", 2}, {"r2", "action", 4}};
}

TEST(PrefixedManager, JoinedKeysAreThePrefixAndTheQuerysOwn) {
  RaggedAttentionManager manager = prefixed_manager();
  manager.plan(RaggedPrefixedAttentionStep{
      .segments = prefixed_segments(), .pairs = {{"action", "prefix"}}, .causal = true});
  const Tensors t(6, 9);
  Tensor truth = t.out;
  attend_plainly(t.q, t.k, t.v, truth, {0, 2, 6}, {0, 5, 9}, sees_causal);
  manager.run("action<-prefix", t.q.view(), t.k.view(), t.v.view(), t.out.view());
  expect_close(t.out, truth);
  EXPECT_EQ(refusal(ErrorCode::invalid_state,
                    [&] {
                      manager.run_two_sources("action<-prefix", t.q.view(), t.k.view(), t.v.view(),
                                              t.k.view(), t.v.view(), t.out.view());
                    }),
            "the plan is for keys in one source; the run brings them in two sources");
}

TEST(PrefixedManager, TwoSourcesGiveTheJoinedAnswer) {
  RaggedAttentionManager manager = prefixed_manager();
  RaggedPrefixedAttentionStep step{.segments = prefixed_segments(),
                                   .pairs = {{"action", "prefix"}},
                                   .causal = true,
                                   .two_sources = true};
  const Tensors t(6, 6);
  const Tensor prefix_k(3, 2, 16, 30);
  const Tensor prefix_v(3, 2, 16, 31);
  // Rows of the joined keys: the prefix, two fresh rows, then four without a prefix.
  Tensors joined(6, 9);
  joined.q = t.q;
  const auto join = [](const Tensor& prefix, const Tensor& fresh, Tensor& into) {
    std::copy(fresh.values.begin(), fresh.values.end(),
              std::copy(prefix.values.begin(), prefix.values.end(), into.values.begin()));
  };
  join(prefix_k, t.k, joined.k);
  join(prefix_v, t.v, joined.v);
  Tensor truth = t.out;
  attend_plainly(joined.q, joined.k, joined.v, truth, {0, 2, 6}, {0, 5, 9}, sees_causal);
  for (const PlanContext& context : {PlanContext{}, leased(0)}) {
    manager.plan(step, context);
    Tensor out = t.out;
    manager.run_two_sources("action<-prefix", t.q.view(), prefix_k.view(), prefix_v.view(),
                            t.k.view(), t.v.view(), out.view());
    expect_close(out, truth);
  }
  EXPECT_EQ(
      refusal(
          ErrorCode::invalid_state,
          [&] { manager.run("action<-prefix", t.q.view(), t.k.view(), t.v.view(), t.out.view()); }),
      "the plan is for keys in two sources; the run brings them in one source");
}

}  // namespace
}  // namespace ragged::test
