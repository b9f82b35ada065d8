// NULL where a pointer is needed is refused as invalid_argument by every function that takes one,
// and ends nothing where a destroy takes it.

#include "capi_test.hpp"

namespace capi_test {
namespace {

TEST(CapiNull, DestroyTakesIt) {
  ragged_wrapper_destroy(nullptr);
  ragged_manager_destroy(nullptr);
  ragged_executor_destroy(nullptr);
}

TEST(CapiNull, NamesAndConfig) {
  ragged_config config = sized<ragged_config>();
  std::int64_t count = 0;
  std::size_t length = 0;
  expect_invalid(ragged_dtype_parse(nullptr, nullptr), "dtype");
  ragged_dtype dtype = 0;
  expect_invalid(ragged_dtype_parse(nullptr, &dtype), "text");
  ragged_kind kind = 0;
  expect_invalid(ragged_kind_parse(nullptr, &kind), "text");
  expect_invalid(ragged_kind_parse("self", nullptr), "kind");
  ragged_backend backend = 0;
  expect_invalid(ragged_backend_parse(nullptr, &backend), "text");
  expect_invalid(ragged_backend_parse("cpu", nullptr), "backend");
  ragged_device device = {};
  expect_invalid(ragged_device_parse(nullptr, &device), "text");
  expect_invalid(ragged_device_parse("cpu", nullptr), "device");
  expect_invalid(ragged_config_validate(nullptr), "config");
  expect_invalid(ragged_config_shard(nullptr, 1), "config");
  expect_invalid(ragged_config_override(nullptr, "a", "b"), "config");
  expect_invalid(ragged_config_override(&config, nullptr, "b"), "key");
  expect_invalid(ragged_config_override(&config, "a", nullptr), "value");
  expect_invalid(ragged_config_max_segments_for(nullptr, 1, &count), "config");
  expect_invalid(ragged_config_max_segments_for(&config, 1, nullptr), "max_segments");
  expect_invalid(ragged_config_max_tokens_for(nullptr, 1, &count), "config");
  expect_invalid(ragged_config_max_tokens_for(&config, 1, nullptr), "max_tokens");
  expect_invalid(ragged_config_sm_scale(nullptr, nullptr), "sm_scale");
  expect_invalid(ragged_cross_label(nullptr, "kv", nullptr, 0, &length), "q_label");
  expect_invalid(ragged_cross_label("q", nullptr, nullptr, 0, &length), "kv_label");
  expect_invalid(ragged_padded_head_dim(64, nullptr), "padded");
  expect_invalid(ragged_spec_resource_class(nullptr, nullptr, 0, &length), "spec");
}

TEST(CapiNull, Runtime) {
  ragged_executor* executor = nullptr;
  const ragged_executor_callbacks callbacks = sized<ragged_executor_callbacks>();
  expect_invalid(ragged_executor_create(nullptr, &executor), "callbacks");
  expect_invalid(ragged_executor_create(&callbacks, nullptr), "executor");
  expect_invalid(ragged_num_backends(nullptr), "count");
  expect_invalid(ragged_backend_at(0, nullptr), "backend");
  expect_invalid(ragged_backend_built(RAGGED_BACKEND_CPU, nullptr), "built");
  std::size_t length = 0;
  expect_invalid(ragged_backend_lacks(RAGGED_BACKEND_CPU, nullptr, nullptr, nullptr, 0, &length),
                 "problem");
}

TEST(CapiNull, PlanAndWrapper) {
  std::size_t length = 0;
  ragged_plan_info info = sized<ragged_plan_info>();
  expect_invalid(ragged_plan_get_info(nullptr, &info), "plan");
  expect_invalid(ragged_plan_explain(nullptr, nullptr, 0, &length), "plan");
  expect_invalid(ragged_plan_json(nullptr, 0, nullptr, 0, &length), "plan");

  const ragged_wrapper_options options = small_options();
  ragged_wrapper* raw = nullptr;
  expect_invalid(ragged_wrapper_create(RAGGED_KIND_SELF, nullptr, &raw), "options");
  expect_invalid(ragged_wrapper_create(RAGGED_KIND_SELF, &options, nullptr), "wrapper");

  const std::int64_t offsets[] = {0, 2};
  const ragged_index cu = ragged_index_int64(offsets, 2);
  ragged_spans spans = sized<ragged_spans>();
  spans.starts = spans.lengths = &cu;
  expect_invalid(ragged_wrapper_plan(nullptr, &cu, 0), "wrapper");
  expect_invalid(ragged_wrapper_plan_spans(nullptr, &spans, 0), "wrapper");
  expect_invalid(ragged_wrapper_plan_cross(nullptr, &cu, &cu), "wrapper");
  expect_invalid(ragged_wrapper_plan_cross_spans(nullptr, &spans, &spans), "wrapper");
  expect_invalid(ragged_wrapper_plan_prefixed(nullptr, &cu, &cu, 0), "wrapper");
  expect_invalid(ragged_wrapper_plan_two_sources(nullptr, &cu, &cu, nullptr, 0), "wrapper");
  expect_invalid(ragged_wrapper_set_plan_stream(nullptr, nullptr), "wrapper");
  expect_invalid(ragged_wrapper_check(nullptr, nullptr), "wrapper");
  expect_invalid(ragged_manager_check(nullptr, nullptr), "manager");

  const auto self = make_wrapper(RAGGED_KIND_SELF, options);
  expect_invalid(ragged_wrapper_plan(self.get(), nullptr, 0), "cu_seqlens");
  expect_invalid(ragged_wrapper_plan_spans(self.get(), nullptr, 0), "spans");
  const auto cross = make_wrapper(RAGGED_KIND_CROSS, options);
  expect_invalid(ragged_wrapper_plan_cross(cross.get(), nullptr, &cu), "q_cu_seqlens");
  expect_invalid(ragged_wrapper_plan_cross(cross.get(), &cu, nullptr), "kv_cu_seqlens");
  expect_invalid(ragged_wrapper_plan_cross_spans(cross.get(), nullptr, &spans), "q");
  expect_invalid(ragged_wrapper_plan_cross_spans(cross.get(), &spans, nullptr), "kv");
  const auto prefixed = make_wrapper(RAGGED_KIND_PREFIXED, options);
  expect_invalid(ragged_wrapper_plan_prefixed(prefixed.get(), nullptr, &cu, 0), "q_cu_seqlens");
  expect_invalid(ragged_wrapper_plan_prefixed(prefixed.get(), &cu, nullptr, 0), "kv_cu_seqlens");
  expect_invalid(ragged_wrapper_plan_two_sources(prefixed.get(), &cu, nullptr, nullptr, 0),
                 "prefix_cu_seqlens");

  ASSERT_OK(ragged_wrapper_plan(self.get(), &cu, 0));
  KnownStep step(2, 2);
  expect_invalid(ragged_wrapper_run(nullptr, &step.arguments), "wrapper");
  expect_invalid(ragged_wrapper_run(self.get(), nullptr), "arguments");
  for (auto field : {&ragged_run_arguments::q, &ragged_run_arguments::k, &ragged_run_arguments::v,
                     &ragged_run_arguments::out}) {
    ragged_run_arguments lacking = step.arguments;
    lacking.*field = nullptr;
    expect_invalid(ragged_wrapper_run(self.get(), &lacking), "must not be NULL");
  }

  std::int32_t planned = 0;
  std::int64_t segments = 0;
  std::size_t bytes = 0;
  ragged_kind kind = 0;
  const ragged_plan* plan = nullptr;
  expect_invalid(ragged_wrapper_kind(nullptr, &kind), "wrapper");
  expect_invalid(ragged_wrapper_kind(self.get(), nullptr), "kind");
  expect_invalid(ragged_wrapper_planned(nullptr, &planned), "wrapper");
  expect_invalid(ragged_wrapper_planned(self.get(), nullptr), "planned");
  expect_invalid(ragged_wrapper_num_segments(nullptr, &segments), "wrapper");
  expect_invalid(ragged_wrapper_num_segments(self.get(), nullptr), "num_segments");
  expect_invalid(ragged_wrapper_workspace_bytes(nullptr, &bytes), "wrapper");
  expect_invalid(ragged_wrapper_workspace_bytes(self.get(), nullptr), "bytes");
  expect_invalid(ragged_wrapper_current_plan(nullptr, &plan), "wrapper");
  expect_invalid(ragged_wrapper_current_plan(self.get(), nullptr), "plan");
  expect_invalid(ragged_wrapper_explain(nullptr, nullptr, 0, &length), "wrapper");
  expect_invalid(ragged_wrapper_plan_json(nullptr, 0, nullptr, 0, &length), "wrapper");
  ASSERT_OK(ragged_wrapper_current_plan(self.get(), &plan));
  expect_invalid(ragged_plan_get_info(plan, nullptr), "info");
}

TEST(CapiNull, Manager) {
  ragged_config config = sized<ragged_config>();
  config.num_qo_heads = config.num_kv_heads = kHeads;
  config.head_dim = kHeadDim;
  config.dtype = RAGGED_DTYPE_FP32;
  ragged_spec spec = sized<ragged_spec>();
  spec.resource_key = "r";
  spec.config = &config;
  ragged_manager* raw = nullptr;
  expect_invalid(ragged_manager_create(nullptr, nullptr, &raw), "spec");
  expect_invalid(ragged_manager_create(&spec, nullptr, nullptr), "manager");
  ASSERT_OK(ragged_manager_create(&spec, nullptr, &raw));
  const Handle<ragged_manager> manager(raw);

  const ragged_step step = sized<ragged_step>();
  expect_invalid(ragged_manager_plan(nullptr, &step, nullptr), "manager");
  expect_invalid(ragged_manager_plan(manager.get(), nullptr, nullptr), "step");
  expect_invalid(ragged_manager_preplan(nullptr, &step, nullptr), "manager");
  expect_invalid(ragged_manager_preplan(manager.get(), nullptr, nullptr), "step");
  expect_invalid(ragged_manager_clear_preplan(nullptr), "manager");
  std::int32_t pending = 0;
  expect_invalid(ragged_manager_preplan_pending(nullptr, &pending), "manager");
  expect_invalid(ragged_manager_preplan_pending(manager.get(), nullptr), "pending");
  KnownStep known(2, 2);
  expect_invalid(ragged_manager_run(nullptr, "main", &known.arguments), "manager");
  expect_invalid(ragged_manager_run(manager.get(), nullptr, &known.arguments), "label");
  expect_invalid(ragged_manager_run(manager.get(), "main", nullptr), "arguments");
  std::int64_t segments = 0;
  expect_invalid(ragged_manager_num_segments(nullptr, "main", &segments), "manager");
  expect_invalid(ragged_manager_num_segments(manager.get(), nullptr, &segments), "label");
  expect_invalid(ragged_manager_num_segments(manager.get(), "main", nullptr), "num_segments");
  std::size_t count = 0;
  expect_invalid(ragged_manager_num_planned_labels(nullptr, &count), "manager");
  expect_invalid(ragged_manager_num_planned_labels(manager.get(), nullptr), "count");
  expect_invalid(ragged_manager_planned_label(nullptr, 0, nullptr, 0, &count), "manager");
  expect_invalid(ragged_manager_planned_label(manager.get(), 0, nullptr, 0, &count), "index");
  const ragged_plan* plan = nullptr;
  expect_invalid(ragged_manager_plan_of(nullptr, "main", &plan), "manager");
  expect_invalid(ragged_manager_plan_of(manager.get(), nullptr, &plan), "label");
  expect_invalid(ragged_manager_plan_of(manager.get(), "main", nullptr), "plan");
  expect_invalid(ragged_manager_resource_key(nullptr, nullptr, 0, &count), "manager");
  ragged_kind kind = 0;
  expect_invalid(ragged_manager_kind(nullptr, &kind), "manager");
  expect_invalid(ragged_manager_kind(manager.get(), nullptr), "kind");
  expect_invalid(ragged_manager_config(nullptr, &config), "manager");
  expect_invalid(ragged_manager_config(manager.get(), nullptr), "config");
}

TEST(CapiNull, Helpers) {
  const ragged_tensor tensor = ragged_tensor_packed(nullptr, RAGGED_DTYPE_FP32, 0, 1, 8);
  const ragged_lse lse = ragged_lse_packed(nullptr, 0, 1);
  ragged_padded padded = sized<ragged_padded>();
  padded.dtype = RAGGED_DTYPE_FP32;
  std::int64_t one[] = {1};
  expect_invalid(ragged_pack(nullptr, one, 1, &tensor), "padded");
  expect_invalid(ragged_pack(&padded, nullptr, 1, &tensor), "lengths");
  expect_invalid(ragged_pack(&padded, one, 1, nullptr), "packed");
  expect_invalid(ragged_unpack(nullptr, one, 1, &padded), "packed");
  expect_invalid(ragged_unpack(&tensor, nullptr, 1, &padded), "lengths");
  expect_invalid(ragged_unpack(&tensor, one, 1, nullptr), "padded");
  expect_invalid(ragged_merge_by_lse(nullptr, &lse, &tensor, &lse, &tensor, &lse), "out_a");
  expect_invalid(ragged_merge_by_lse(&tensor, nullptr, &tensor, &lse, &tensor, &lse), "lse_a");
  expect_invalid(ragged_merge_by_lse(&tensor, &lse, nullptr, &lse, &tensor, &lse), "out_b");
  expect_invalid(ragged_merge_by_lse(&tensor, &lse, &tensor, nullptr, &tensor, &lse), "lse_b");
  expect_invalid(ragged_merge_by_lse(&tensor, &lse, &tensor, &lse, nullptr, &lse), "out");
  expect_invalid(ragged_offsets_from_lengths(nullptr, 1, one), "lengths");
  expect_invalid(ragged_offsets_from_lengths(one, 1, nullptr), "offsets");
}

}  // namespace
}  // namespace capi_test
