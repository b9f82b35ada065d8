#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <ragged/declare.hpp>

#include "support/refusal.hpp"

namespace ragged {
namespace {

using test::refusal;

RaggedAttentionConfig config(int num_qo_heads, int num_kv_heads, int head_dim) {
  return {.num_qo_heads = num_qo_heads, .num_kv_heads = num_kv_heads, .head_dim = head_dim};
}

TEST(Config, DefaultsAreTheSeedApis) {
  const RaggedAttentionConfig c = config(16, 8, 72);
  EXPECT_EQ(c.max_segments_per_request, 1);
  EXPECT_FALSE(c.max_tokens_per_request.has_value());
  EXPECT_EQ(c.backend, RaggedAttnBackend::AUTO);
  EXPECT_EQ(c.flashinfer_backend, "auto");
  EXPECT_FALSE(c.dtype.has_value());
}

TEST(Config, ScaleComesFromTheTrueHeadDim) {
  EXPECT_DOUBLE_EQ(config(16, 16, 72).resolved_sm_scale(), 1.0 / std::sqrt(72.0));
  RaggedAttentionConfig c = config(16, 16, 72);
  c.sm_scale = 0.5;
  EXPECT_DOUBLE_EQ(c.resolved_sm_scale(), 0.5);
}

TEST(Config, CeilingsGrowWithTheBatch) {
  RaggedAttentionConfig c = config(16, 16, 72);
  c.max_segments_per_request = 3;
  EXPECT_EQ(c.max_segments_for(4), 12);
  EXPECT_FALSE(c.max_tokens_for(4).has_value());
  c.max_tokens_per_request = 100;
  EXPECT_EQ(c.max_tokens_for(4), 400);
  refusal(ErrorCode::invalid_argument, [&] { (void)c.max_segments_for(-1); });
  c.max_tokens_per_request = std::int64_t{1} << 62;
  EXPECT_NE(refusal(ErrorCode::invalid_argument, [&] { (void)c.max_tokens_for(4); })
                .find("max_tokens_per_request"),
            std::string::npos);
}

TEST(Shard, NarrowsFromTheUnshardedCounts) {
  RaggedAttentionConfig c = config(16, 8, 64);
  c.shard(4);
  EXPECT_EQ(c.num_qo_heads, 4);
  EXPECT_EQ(c.num_kv_heads, 2);
  c.shard(4);  // twice is the same as once
  EXPECT_EQ(c.num_qo_heads, 4);
  EXPECT_EQ(c.num_kv_heads, 2);
  c.shard(1);
  EXPECT_EQ(c.num_qo_heads, 16);
  EXPECT_EQ(c.num_kv_heads, 8);
}

TEST(Shard, ReplicatesOneKeyHeadOnEveryRank) {
  RaggedAttentionConfig c = config(32, 4, 64);
  c.shard(8);
  EXPECT_EQ(c.num_qo_heads, 4);
  EXPECT_EQ(c.num_kv_heads, 1);
}

TEST(Shard, RefusesByName) {
  RaggedAttentionConfig c = config(25, 25, 64);
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [&] { c.shard(2); }),
            "num_qo_heads = 25 does not divide over 2 shards");
  EXPECT_EQ(c.num_qo_heads, 25);  // as before
  c = config(28, 4, 64);
  refusal(ErrorCode::invalid_argument, [&] { c.shard(8); });
  c = config(12, 6, 64);
  EXPECT_NE(refusal(ErrorCode::invalid_argument, [&] { c.shard(4); }).find("num_kv_heads = 6"),
            std::string::npos);
  // Three shards would cut the query heads of a key head apart.
  c = config(12, 2, 64);
  EXPECT_NE(refusal(ErrorCode::invalid_argument, [&] { c.shard(3); }).find("num_kv_heads = 2"),
            std::string::npos);
  refusal(ErrorCode::invalid_argument, [&] { c.shard(0); });
}

TEST(Config, ValidateNamesTheField) {
  const auto text = [](const RaggedAttentionConfig& c) {
    return refusal(ErrorCode::invalid_argument, [&] { c.validate(); });
  };
  EXPECT_NE(text(config(0, 1, 64)).find("num_qo_heads"), std::string::npos);
  EXPECT_NE(text(config(16, 3, 64)).find("16 and 3"), std::string::npos);
  EXPECT_NE(text(config(16, 16, 100)).find("got 100"), std::string::npos);
  EXPECT_NE(text(config(16, 16, 264)).find("got 264"), std::string::npos);
  RaggedAttentionConfig c = config(16, 16, 64);
  c.sm_scale = std::nan("");
  EXPECT_NE(text(c).find("sm_scale"), std::string::npos);
  c = config(16, 16, 64);
  c.flashinfer_backend = "fa4";
  EXPECT_NE(text(c).find("fa4"), std::string::npos);
  EXPECT_NO_THROW(config(16, 16, 72).validate());
}

TEST(Config, OverridesExactlyThreeKeys) {
  RaggedAttentionConfig c = config(16, 16, 64);
  c.override_field("flashinfer_backend", "fa2");
  c.override_field("max_segments_per_request", "3");
  c.override_field("max_tokens_per_request", "1000");
  EXPECT_EQ(c.flashinfer_backend, "fa2");
  EXPECT_EQ(c.max_segments_per_request, 3);
  EXPECT_EQ(c.max_tokens_per_request, 1000);
  EXPECT_NE(refusal(ErrorCode::invalid_argument, [&] { c.override_field("head_dim", "8"); })
                .find("'head_dim'"),
            std::string::npos);
  refusal(ErrorCode::invalid_argument, [&] { c.override_field("max_tokens_per_request", "1x"); });
  refusal(ErrorCode::invalid_argument, [&] { c.override_field("max_tokens_per_request", "0"); });
}

TEST(Names, RoundTrip) {
  for (const auto d : {DType::bf16, DType::fp16, DType::fp32}) {
    EXPECT_EQ(parse_dtype(to_string(d)), d);
  }
  for (const auto b : {RaggedAttnBackend::AUTO, RaggedAttnBackend::FLASHINFER,
                       RaggedAttnBackend::CPU, RaggedAttnBackend::SM90}) {
    EXPECT_EQ(parse_backend(to_string(b)), b);
  }
  EXPECT_NE(refusal(ErrorCode::invalid_argument, [] { (void)parse_dtype("fp8"); }).find("'fp8'"),
            std::string::npos);
}

TEST(Labels, CrossLabelNamesBothSides) { EXPECT_EQ(cross_label("video", "text"), "video<-text"); }

TEST(PaddedHeadDim, IsTheNextThatFlashInferSupports) {
  EXPECT_EQ(padded_head_dim(8), 64);
  EXPECT_EQ(padded_head_dim(64), 64);
  EXPECT_EQ(padded_head_dim(72), 128);
  EXPECT_EQ(padded_head_dim(129), 256);
  EXPECT_NE(refusal(ErrorCode::invalid_argument, [] { (void)padded_head_dim(257); }).find("256"),
            std::string::npos);
}

TEST(Specs, NameWhatBuildsThem) {
  const RaggedBlockCausalAttentionSpec spec{.resource_key = "audio",
                                            .nodes = {"encoder"},
                                            .config = config(16, 16, 64),
                                            .block_size = 50};
  EXPECT_EQ(spec.resource_class(), "ragged::RaggedAttentionManager");
}

}  // namespace
}  // namespace ragged
