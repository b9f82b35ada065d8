#include "capi_test.hpp"

namespace capi_test {
namespace {

ragged_config config(int num_qo_heads, int num_kv_heads, int head_dim) {
  ragged_config c = sized<ragged_config>();
  c.num_qo_heads = num_qo_heads;
  c.num_kv_heads = num_kv_heads;
  c.head_dim = head_dim;
  return c;
}

TEST(CapiConfig, ZeroIsTheDefault) {
  const ragged_config c = config(16, 8, 72);
  EXPECT_OK(ragged_config_validate(&c));
  std::int64_t ceiling = 0;
  EXPECT_OK(ragged_config_max_segments_for(&c, 4, &ceiling));
  EXPECT_EQ(ceiling, 4);
  EXPECT_OK(ragged_config_max_tokens_for(&c, 4, &ceiling));
  EXPECT_EQ(ceiling, -1);
  double scale = 0;
  EXPECT_OK(ragged_config_sm_scale(&c, &scale));
  EXPECT_DOUBLE_EQ(scale, 1.0 / std::sqrt(72.0));
}

TEST(CapiConfig, FieldsAreHonoured) {
  ragged_config c = config(16, 8, 72);
  c.max_segments_per_request = 3;
  c.max_tokens_per_request = 100;
  c.has_sm_scale = 1;
  c.sm_scale = 0.0;  // a given zero is a scale, not the default
  std::int64_t ceiling = 0;
  EXPECT_OK(ragged_config_max_segments_for(&c, 4, &ceiling));
  EXPECT_EQ(ceiling, 12);
  EXPECT_OK(ragged_config_max_tokens_for(&c, 4, &ceiling));
  EXPECT_EQ(ceiling, 400);
  double scale = -1;
  EXPECT_OK(ragged_config_sm_scale(&c, &scale));
  EXPECT_EQ(scale, 0.0);
}

TEST(CapiConfig, RefusesByName) {
  ragged_config c = config(16, 8, 100);
  expect_invalid(ragged_config_validate(&c), "head_dim");
  double scale = 0;
  expect_invalid(ragged_config_sm_scale(&c, &scale), "head_dim");
  c = config(16, 3, 64);
  expect_invalid(ragged_config_validate(&c), "16 and 3");
  c = config(16, 8, 64);
  c.sm_scale = 0.5;
  expect_invalid(ragged_config_validate(&c), "has_sm_scale");
  c = config(16, 8, 64);
  c.has_sm_scale = 2;
  expect_invalid(ragged_config_validate(&c), "has_sm_scale must be 0 or 1; got 2");
  c = config(16, 8, 64);
  c.dtype = 4;
  expect_invalid(ragged_config_validate(&c), "config->dtype");
  c = config(16, 8, 64);
  c.backend = -1;
  expect_invalid(ragged_config_validate(&c), "config->backend");
  c = config(16, 8, 64);
  c.flashinfer_backend = "fa4";
  expect_invalid(ragged_config_validate(&c), "fa4");
  c = config(16, 8, 64);
  c.max_segments_per_request = -1;
  expect_invalid(ragged_config_validate(&c), "max_segments_per_request");
  c = config(16, 8, 64);
  c.unsharded_num_qo_heads = 16;
  expect_invalid(ragged_config_validate(&c), "unsharded_num_kv_heads");
}

TEST(CapiConfig, ShardsFromTheUnshardedCounts) {
  ragged_config c = config(32, 4, 64);
  c.flashinfer_backend = "fa3";
  c.dtype = RAGGED_DTYPE_FP16;
  EXPECT_OK(ragged_config_shard(&c, 8));
  EXPECT_EQ(c.num_qo_heads, 4);
  EXPECT_EQ(c.num_kv_heads, 1);
  EXPECT_EQ(c.unsharded_num_qo_heads, 32);
  EXPECT_EQ(c.unsharded_num_kv_heads, 4);
  EXPECT_OK(ragged_config_shard(&c, 8));  // twice is the same as once
  EXPECT_EQ(c.num_qo_heads, 4);
  EXPECT_EQ(c.dtype, RAGGED_DTYPE_FP16);
  EXPECT_STREQ(c.flashinfer_backend, "fa3");

  c = config(25, 25, 64);
  expect_invalid(ragged_config_shard(&c, 2), "num_qo_heads = 25");
  EXPECT_EQ(c.num_qo_heads, 25);
  EXPECT_EQ(c.unsharded_num_qo_heads, 0);
  expect_invalid(ragged_config_shard(&c, 0), "num_shards");
  c = config(4, 0, 64);  // counts that shard() would divide by
  expect_invalid(ragged_config_shard(&c, 2), "num_kv_heads");
}

TEST(CapiConfig, OverridesExactlyThreeKeys) {
  ragged_config c = config(16, 16, 64);
  {
    // The text is the caller's and may go.
    const std::string value = "fa2";
    EXPECT_OK(ragged_config_override(&c, "flashinfer_backend", value.c_str()));
  }
  EXPECT_STREQ(c.flashinfer_backend, "fa2");
  EXPECT_OK(ragged_config_override(&c, "max_tokens_per_request", "1000"));
  EXPECT_EQ(c.max_tokens_per_request, 1000);
  expect_invalid(ragged_config_override(&c, "head_dim", "8"), "'head_dim'");
  expect_invalid(ragged_config_override(&c, "max_segments_per_request", "0"), "'0'");
  EXPECT_EQ(c.head_dim, 64);
}

TEST(CapiConfig, PaddedHeadDim) {
  std::int32_t padded = 0;
  EXPECT_OK(ragged_padded_head_dim(129, &padded));
  EXPECT_EQ(padded, 256);
  expect_invalid(ragged_padded_head_dim(257, &padded), "256");
}

TEST(CapiSpec, NamesWhatBuildsIt) {
  const ragged_config c = config(16, 16, 64);
  const char* const nodes[] = {"encoder", "decoder"};
  ragged_spec spec = sized<ragged_spec>();
  spec.resource_key = "audio";
  spec.nodes = nodes;
  spec.num_nodes = 2;
  spec.config = &c;
  const auto resource_class = [&](char* buffer, std::size_t capacity, std::size_t* length) {
    return ragged_spec_resource_class(&spec, buffer, capacity, length);
  };
  for (spec.kind = RAGGED_KIND_SELF; spec.kind <= RAGGED_KIND_PREFIXED; ++spec.kind) {
    spec.block_size = spec.kind == RAGGED_KIND_BLOCK_CAUSAL ? 50 : 0;
    EXPECT_EQ(text_of(resource_class), "ragged::RaggedAttentionManager");
  }
  std::size_t length = 0;
  spec.kind = 4;
  expect_invalid(resource_class(nullptr, 0, &length), "spec->kind");
  spec.kind = RAGGED_KIND_CROSS;
  spec.block_size = 50;
  expect_invalid(resource_class(nullptr, 0, &length), "spec->block_size must be 0 for kind cross");
  spec.block_size = 0;
  spec.resource_key = nullptr;
  expect_invalid(resource_class(nullptr, 0, &length), "spec->resource_key");
  spec.resource_key = "audio";
  spec.config = nullptr;
  expect_invalid(resource_class(nullptr, 0, &length), "spec->config");
  spec.config = &c;
  spec.nodes = nullptr;
  expect_invalid(resource_class(nullptr, 0, &length), "spec->nodes");
}

}  // namespace
}  // namespace capi_test
