// How a declared step becomes plans: labels, pairs, and what two steps differ in.

#include "manager_step.hpp"

#include "support.hpp"

namespace ragged::test {
namespace {

using detail::first_difference;
using detail::layout_of_cross;
using detail::layout_of_labels;
using detail::layout_of_prefixed;
using detail::StepLayout;

const std::vector<Segment> kTwoLabels = {
    {"r1", "video", 4}, {"r1", "text", 2}, {"r2", "video", 0}, {"r2", "text", 3}};

TEST(StepOfLabels, SegmentsInDeclaredOrderAreTheWholeLayout) {
  const StepLayout step = layout_of_labels(kTwoLabels, true);
  ASSERT_EQ(step.plans.size(), 2U);
  EXPECT_TRUE(step.causal);
  EXPECT_EQ(step.plans[0].label, "video");
  EXPECT_EQ(step.plans[0].q, (Offsets{0, 4, 4}));  // the span of 0 counts
  EXPECT_TRUE(step.plans[0].kv.empty());
  EXPECT_EQ(step.plans[1].label, "text");
  EXPECT_EQ(step.plans[1].q, (Offsets{0, 2, 5}));
}

TEST(StepOfLabels, ARequestMayGiveSeveralSegments) {
  const std::vector<Segment> segments = {{"r1", "main", 4}, {"r1", "main", 5}, {"r2", "main", 1}};
  EXPECT_EQ(layout_of_labels(segments, false).plans.at(0).q, (Offsets{0, 4, 9, 10}));
}

TEST(StepOfLabels, NoSegmentsAreNoPlans) { EXPECT_TRUE(layout_of_labels({}, false).plans.empty()); }

TEST(StepOfLabels, NamesABadSpan) {
  std::vector<Segment> segments = {{"r1", "main", 4}, {"r2", "main", -1}};
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { layout_of_labels(segments, false); }),
            "segments[1].span must be at least 0; got -1");
  segments[1].span = std::numeric_limits<std::int64_t>::max();
  const std::string text =
      refusal(ErrorCode::invalid_argument, [&] { layout_of_labels(segments, false); });
  EXPECT_EQ(text.find("segments[1].span = 9223372036854775807 takes label 'main' beyond "), 0U)
      << text;
}

TEST(StepOfPairs, RunsUnderTheCrossLabel) {
  const StepLayout step =
      layout_of_cross(kTwoLabels, std::vector<LabelPair>{{"video", "text"}, {"text", "video"}});
  ASSERT_EQ(step.plans.size(), 2U);
  EXPECT_EQ(step.plans[0].label, "video<-text");
  EXPECT_EQ(step.plans[0].q, (Offsets{0, 4, 4}));
  EXPECT_EQ(step.plans[0].kv, (Offsets{0, 2, 5}));
  EXPECT_EQ(step.plans[1].label, "text<-video");
  EXPECT_EQ(step.plans[1].q, (Offsets{0, 2, 5}));
  EXPECT_EQ(step.plans[1].kv, (Offsets{0, 4, 4}));
}

TEST(StepOfPairs, ALabelMayAttendItself) {
  const StepLayout step = layout_of_cross(kTwoLabels, std::vector<LabelPair>{{"text", "text"}});
  EXPECT_EQ(step.plans.at(0).q, step.plans.at(0).kv);
}

TEST(StepOfPairs, TheSamePairTwiceIsOnePlan) {
  const StepLayout step =
      layout_of_cross(kTwoLabels, std::vector<LabelPair>{{"video", "text"}, {"video", "text"}});
  EXPECT_EQ(step.plans.size(), 1U);
}

TEST(StepOfPairs, DifferentPairsUnderOneLabelAreRefused) {
  const std::vector<Segment> segments = {
      {"r1", "a", 1}, {"r1", "b<-c", 1}, {"r1", "a<-b", 1}, {"r1", "c", 1}};
  const std::vector<LabelPair> pairs = {{"a", "b<-c"}, {"a<-b", "c"}};
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { layout_of_cross(segments, pairs); }),
            "pairs[1] and pairs[0] are different pairs under one label, 'a<-b<-c'");
}

TEST(StepOfPairs, NamesTheLabelThatNoSegmentDeclares) {
  const std::vector<LabelPair> pairs = {{"video", "text"}, {"video", "audio"}};
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { layout_of_cross(kTwoLabels, pairs); }),
            "pairs[1] names label 'audio', which no segment declares; declared: 'video', 'text'");
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { layout_of_cross({}, pairs); }),
            "pairs[0] names label 'video', which no segment declares; declared: none");
}

TEST(StepOfPairs, NamesTheFirstRequestThatDiffers) {
  const std::vector<LabelPair> pairs = {{"q", "kv"}};
  const std::vector<Segment> swapped = {
      {"r1", "q", 1}, {"r2", "q", 1}, {"r2", "kv", 1}, {"r1", "kv", 1}};
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { layout_of_cross(swapped, pairs); }),
            "pairs[0]: label 'q' and label 'kv' must list the same requests in the same order; "
            "segment 0 is of request 'r1' in the first, of 'r2' in the second");
  const std::vector<Segment> fewer = {{"r1", "q", 1}, {"r2", "q", 1}, {"r1", "kv", 1}};
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { layout_of_cross(fewer, pairs); }),
            "pairs[0]: label 'q' and label 'kv' must list the same requests in the same order; "
            "the first has 2 segments, the second 1");
}

TEST(StepOfPairs, SeveralSegmentsOfARequestPairByPosition) {
  const std::vector<Segment> segments = {
      {"r1", "q", 64}, {"r1", "q", 64}, {"r1", "kv", 100}, {"r1", "kv", 90}};
  const StepLayout step = layout_of_cross(segments, std::vector<LabelPair>{{"q", "kv"}});
  EXPECT_EQ(step.plans.at(0).kv, (Offsets{0, 100, 190}));
}

TEST(StepOfPrefixed, KeysArePrefixAndQuery) {
  const std::vector<LabelPair> pairs = {{"video", "text"}};
  const StepLayout joined = layout_of_prefixed(kTwoLabels, pairs, true, false);
  EXPECT_EQ(joined.plans.at(0).label, "video<-text");
  EXPECT_EQ(joined.plans.at(0).q, (Offsets{0, 4, 4}));
  EXPECT_EQ(joined.plans.at(0).kv, (Offsets{0, 6, 9}));
  EXPECT_TRUE(joined.plans.at(0).prefix.empty());
  EXPECT_TRUE(joined.causal);
  const StepLayout two_sources = layout_of_prefixed(kTwoLabels, pairs, false, true);
  EXPECT_TRUE(two_sources.plans.at(0).kv.empty());
  EXPECT_EQ(two_sources.plans.at(0).prefix, (Offsets{0, 2, 5}));
}

TEST(StepDifference, IsEmptyForTheSameLayout) {
  const std::vector<Segment> other_order = {
      {"x", "text", 2}, {"x", "video", 4}, {"y", "video", 0}, {"y", "text", 3}};
  EXPECT_EQ(
      first_difference(layout_of_labels(kTwoLabels, false), layout_of_labels(other_order, false)),
      "");
}

TEST(StepDifference, NamesWhatDiffers) {
  const StepLayout step = layout_of_labels(kTwoLabels, false);
  EXPECT_EQ(first_difference(step, layout_of_labels(kTwoLabels, true)),
            "causal is false, was true");
  std::vector<Segment> longer = kTwoLabels;
  longer[1].span = 9;
  EXPECT_EQ(first_difference(step, layout_of_labels(longer, false)),
            "label 'text' has other spans");
  const std::vector<Segment> fewer = {kTwoLabels[0], kTwoLabels[2]};
  EXPECT_EQ(first_difference(step, layout_of_labels(fewer, false)),
            "label 'text' is in this step, not in the other step");
  EXPECT_EQ(first_difference(layout_of_labels(fewer, false), step),
            "label 'text' is in the other step, not in this step");
  const std::vector<LabelPair> pairs = {{"video", "text"}};
  EXPECT_EQ(first_difference(layout_of_prefixed(kTwoLabels, pairs, false, true),
                             layout_of_prefixed(kTwoLabels, pairs, false, false)),
            "two_sources is true, was false");
}

}  // namespace
}  // namespace ragged::test
