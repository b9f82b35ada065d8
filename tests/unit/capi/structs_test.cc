#include <cstring>

#include "capi_test.hpp"

namespace capi_test {
namespace {

// The sizes that callers of 0.1 were compiled with: a field is added at an end, never elsewhere.
static_assert(sizeof(void*) != 8 || sizeof(ragged_config) == 72);
static_assert(sizeof(void*) != 8 || sizeof(ragged_spec) == 56);
static_assert(sizeof(void*) != 8 || sizeof(ragged_tensor) == 80);
static_assert(sizeof(void*) != 8 || sizeof(ragged_lse) == 56);
static_assert(sizeof(void*) != 8 || sizeof(ragged_index) == 48);
static_assert(sizeof(void*) != 8 || sizeof(ragged_spans) == 24);
static_assert(sizeof(void*) != 8 || sizeof(ragged_wrapper_options) == 120);
static_assert(sizeof(void*) != 8 || sizeof(ragged_run_arguments) == 72);
static_assert(sizeof(void*) != 8 || sizeof(ragged_plan_info) == 112);
static_assert(sizeof(void*) != 8 || sizeof(ragged_engine_options) == 40);
static_assert(sizeof(void*) != 8 || sizeof(ragged_segment) == 32);
static_assert(sizeof(void*) != 8 || sizeof(ragged_label_pair) == 24);
static_assert(sizeof(void*) != 8 || sizeof(ragged_step) == 56);
static_assert(sizeof(void*) != 8 || sizeof(ragged_slot_lease) == 48);
static_assert(sizeof(void*) != 8 || sizeof(ragged_plan_context) == 48);
static_assert(sizeof(void*) != 8 || sizeof(ragged_problem) == 56);
static_assert(sizeof(void*) != 8 || sizeof(ragged_padded) == 88);
static_assert(sizeof(void*) != 8 || sizeof(ragged_executor_callbacks) == 32);
static_assert(sizeof(void*) != 8 || sizeof(ragged_log_record) == 16);

ragged_config small_config() {
  ragged_config config = sized<ragged_config>();
  config.num_qo_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 64;
  return config;
}

// A struct of a newer header: ours with a tail.
template <typename T>
struct Newer {
  T ours = sized<T>();
  std::int64_t tail[2] = {0, 0};
  Newer() { ours.struct_size = sizeof(Newer); }
  explicit Newer(const T& given) : ours(given) { ours.struct_size = sizeof(Newer); }
};

TEST(CapiStructs, FieldsBeyondAnOlderSizeAreDefaulted) {
  ragged_config config = small_config();
  config.struct_size = offsetof(ragged_config, sm_scale);
  // Garbage beyond the size is not looked at.
  config.sm_scale = std::nan("");
  config.max_segments_per_request = -5;
  config.backend = 1000;
  EXPECT_OK(ragged_config_validate(&config));
  std::int64_t segments = 0;
  EXPECT_OK(ragged_config_max_segments_for(&config, 7, &segments));
  EXPECT_EQ(segments, 7);

  // An older size holds too little to shard: what it would lose is said.
  expect_invalid(ragged_config_shard(&config, 2), "unsharded");
  EXPECT_EQ(config.num_qo_heads, 8);
}

TEST(CapiStructs, AnOlderStructIsNotWrittenBeyondItsSize) {
  ragged_config config = small_config();
  config.struct_size = offsetof(ragged_config, backend);
  config.backend = 77;
  EXPECT_OK(ragged_config_override(&config, "max_segments_per_request", "3"));
  EXPECT_EQ(config.max_segments_per_request, 3);
  EXPECT_EQ(config.backend, 77);
  EXPECT_EQ(config.struct_size, offsetof(ragged_config, backend));
}

TEST(CapiStructs, ANewerStructPassesWhileItsTailIsZero) {
  Newer<ragged_config> config(small_config());
  EXPECT_OK(ragged_config_validate(&config.ours));
  EXPECT_OK(ragged_config_shard(&config.ours, 2));
  EXPECT_EQ(config.ours.num_qo_heads, 4);
  EXPECT_EQ(config.ours.struct_size, sizeof(config));
  config.tail[1] = 1;
  expect_invalid(ragged_config_validate(&config.ours), "config holds a field at byte 80");
}

TEST(CapiStructs, SizesThatNoStructHasAreRefused) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{4}, std::size_t{7}, std::size_t{13},
                                 std::size_t{1} << 20, ~std::size_t{0}, ~std::size_t{7}}) {
    ragged_config config = small_config();
    config.struct_size = size;
    expect_invalid(ragged_config_validate(&config), "config->struct_size");
    ragged_wrapper_options options = small_options();
    options.struct_size = size;
    ragged_wrapper* wrapper = nullptr;
    expect_invalid(ragged_wrapper_create(RAGGED_KIND_SELF, &options, &wrapper),
                   "options->struct_size");
    EXPECT_EQ(wrapper, nullptr);
  }
}

TEST(CapiStructs, WhatAnOlderLibraryDoesNotKnowReadsZero) {
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, small_options());
  const std::int64_t offsets[] = {0, 3, 5};
  const ragged_index cu = ragged_index_int64(offsets, 3);
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  const ragged_plan* plan = nullptr;
  ASSERT_OK(ragged_wrapper_current_plan(wrapper.get(), &plan));

  Newer<ragged_plan_info> newer;
  newer.tail[0] = newer.tail[1] = -1;  // an out struct may hold anything before the call
  EXPECT_OK(ragged_plan_get_info(plan, &newer.ours));
  EXPECT_EQ(newer.tail[0], 0);
  EXPECT_EQ(newer.tail[1], 0);
  EXPECT_EQ(newer.ours.struct_size, sizeof(newer));
  EXPECT_EQ(newer.ours.num_segments, 2);

  ragged_plan_info older = sized<ragged_plan_info>();
  older.struct_size = offsetof(ragged_plan_info, total_tokens);
  older.total_tokens = -7;
  EXPECT_OK(ragged_plan_get_info(plan, &older));
  EXPECT_EQ(older.num_segments, 2);
  EXPECT_EQ(older.total_tokens, -7);
}

TEST(CapiStructs, ArrayElementsLieTheirSizeApart) {
  ragged_config config = small_config();
  config.dtype = RAGGED_DTYPE_FP32;
  ragged_spec spec = sized<ragged_spec>();
  spec.resource_key = "r";
  spec.config = &config;
  ragged_manager* raw = nullptr;
  ASSERT_OK(ragged_manager_create(&spec, nullptr, &raw));
  const Handle<ragged_manager> manager(raw);

  Newer<ragged_segment> segments[3];
  for (int i = 0; i < 3; ++i) {
    segments[i].ours.request_id = "r";
    segments[i].ours.span = 2 + i;
  }
  ragged_step step = sized<ragged_step>();
  step.has_segments = 1;
  step.segments = &segments[0].ours;
  step.num_segments = 3;
  ASSERT_OK(ragged_manager_plan(manager.get(), &step, nullptr));
  const ragged_plan* plan = nullptr;
  ASSERT_OK(ragged_manager_plan_of(manager.get(), "main", &plan));
  ragged_plan_info info = sized<ragged_plan_info>();
  ASSERT_OK(ragged_plan_get_info(plan, &info));
  EXPECT_EQ(info.num_segments, 3);
  EXPECT_EQ(info.total_tokens, 2 + 3 + 4);

  segments[1].ours.struct_size = sizeof(ragged_segment);
  expect_invalid(ragged_manager_plan(manager.get(), &step, nullptr), "segments[1].struct_size");
}

TEST(CapiStructs, FieldsWithoutMeaningStayZero) {
  const float data[16] = {};
  ragged_tensor tensor = ragged_tensor_packed(data, RAGGED_DTYPE_FP32, 1, 2, 8);
  tensor.reserved = 1;
  const std::int64_t lengths[] = {1};
  ragged_padded padded = sized<ragged_padded>();
  padded.dtype = RAGGED_DTYPE_FP32;
  expect_invalid(ragged_pack(&padded, lengths, 1, &tensor), "reserved");
  tensor.reserved = 0;
  padded.reserved = 2;
  expect_invalid(ragged_pack(&padded, lengths, 1, &tensor), "reserved");
}

}  // namespace
}  // namespace capi_test
