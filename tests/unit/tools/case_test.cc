#include "case.hpp"

#include "refusal.hpp"

namespace ragged::tools {
namespace {

using Lengths = std::vector<std::int64_t>;

CaseOptions lengths(Lengths q) {
  CaseOptions options;
  options.lengths = std::move(q);
  return options;
}

TEST(BuildCase, TheKindFollowsFromTheOptions) {
  CaseOptions o = lengths({3, 17});
  EXPECT_EQ(build_case(o).problem.kind, AttentionKind::self);
  EXPECT_EQ(build_case(o).describe(), "self, 2 segments, 20 tokens, 8 heads of 64, fp32");
  EXPECT_TRUE(build_case(o).layouts().kv_is_q);
  o.kv_lengths = Lengths{5, 0};
  EXPECT_EQ(build_case(o).problem.kind, AttentionKind::cross);
  EXPECT_EQ(build_case(o).key_lengths(), (Lengths{5, 0}));
  EXPECT_EQ(build_case(o).layouts().kv.total_tokens(), 5);
  o = lengths({3, 17});
  o.block_size = 4;
  EXPECT_EQ(build_case(o).problem.kind, AttentionKind::block_causal);
  EXPECT_EQ(build_case(o).problem.block_size, 4);
}

TEST(BuildCase, APrefixIsJoinedOrApart) {
  CaseOptions o = lengths({3, 17});
  o.prefix_lengths = Lengths{10, 0};
  o.causal = true;
  Case c = build_case(o);
  EXPECT_EQ(c.problem.kind, AttentionKind::prefixed);
  EXPECT_EQ(c.key_lengths(), (Lengths{13, 17}));
  EXPECT_EQ(c.layouts().kv.total_tokens(), 30);
  EXPECT_FALSE(c.layouts().kv_is_q);
  o.two_sources = true;
  c = build_case(o);
  EXPECT_TRUE(c.layouts().kv_is_q);
  EXPECT_EQ(c.layouts().prefix.total_tokens(), 10);
  EXPECT_EQ(c.layouts().kv_length(0), 13);
}

TEST(BuildCase, OptionsWinOverAWorkload) {
  CaseOptions o;
  o.workload = "siglip-8";
  EXPECT_EQ(build_case(o).problem.head_dim, 72);
  EXPECT_EQ(build_case(o).name, "siglip-8");
  o.dtype = DType::fp32;
  o.num_qo_heads = 4;
  o.num_kv_heads = 2;
  o.sm_scale = 0.5;
  const Problem p = build_case(o).problem;
  EXPECT_EQ(p.dtype, DType::fp32);
  EXPECT_EQ(p.num_qo_heads, 4);
  EXPECT_EQ(p.num_kv_heads, 2);
  EXPECT_DOUBLE_EQ(p.sm_scale, 0.5);
}

TEST(BuildCase, AScaleFollowsTheHeadDim) {
  CaseOptions o = lengths({3});
  o.head_dim = 16;
  EXPECT_DOUBLE_EQ(build_case(o).problem.sm_scale, 0.25);
}

TEST(BuildCase, RefusesOptionsThatAreAtOdds) {
  const auto text = [](const CaseOptions& o) { return refusal([&] { (void)build_case(o); }); };
  EXPECT_TRUE(holds(text({}), "--lengths or --workload: expected one of them, got neither"));
  CaseOptions o = lengths({3, 17});
  o.workload = "W1";
  EXPECT_TRUE(holds(text(o), "got both"));
  o = lengths({3, 17});
  o.kv_lengths = Lengths{1};
  EXPECT_TRUE(holds(text(o), "--kv-lengths: expected 2 lengths"));
  o.kv_lengths = Lengths{1, 2};
  o.block_size = 4;
  EXPECT_TRUE(holds(text(o), "at most one of them, got 2"));
  o.block_size.reset();
  o.causal = true;
  EXPECT_TRUE(holds(text(o), "--causal: cross-attention is never causal"));
  o = lengths({3});
  o.two_sources = true;
  EXPECT_TRUE(holds(text(o), "--two-sources: expected prefixed attention, got self"));
  o = lengths({3});
  o.num_kv_heads = 3;
  EXPECT_TRUE(holds(text(o), "num_kv_heads"));
  o = lengths({3});
  o.head_dim = 100;
  EXPECT_TRUE(holds(text(o), "100"));
}

TEST(BuildCase, NoSegmentsIsACase) {
  const Case c = build_case(lengths({}));
  EXPECT_EQ(c.layouts().q.num_segments(), 0);
  EXPECT_EQ(c.describe(), "self, 0 segments, 0 tokens, 8 heads of 64, fp32");
}

}  // namespace
}  // namespace ragged::tools
