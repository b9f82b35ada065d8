#include <cstdlib>

#include "capi_test.hpp"

namespace capi_test {
namespace {

using Offsets = std::vector<std::int64_t>;

ragged_index index_of(const Offsets& offsets) {
  return ragged_index_int64(offsets.data(), static_cast<std::int64_t>(offsets.size()));
}

TEST(CapiWrapper, SelfSeesItsSegment) {
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, small_options());
  {
    const Offsets offsets = {0, 3, 3, 5};
    const ragged_index cu = index_of(offsets);
    ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  }  // the offsets may go
  KnownStep step(6, 6);
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(0, 1.0, 3);
  step.expect_row(2, 1.0, 3);
  step.expect_row(4, 3.5, 2);
  step.expect_untouched(5);

  const Offsets offsets = {0, 3, 3, 5};
  const ragged_index cu = index_of(offsets);
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 1));
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(0, 0.0, 1);
  step.expect_row(2, 1.0, 3);
  step.expect_row(3, 3.0, 1);
}

TEST(CapiWrapper, OffsetsOfEitherTypeAndAnyStride) {
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, small_options());
  const std::int32_t strided[] = {0, -9, 2, -9, 5, -9};
  ragged_index cu = ragged_index_int32(strided, 3);
  cu.stride = 2;
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  KnownStep step(5, 5);
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(1, 0.5, 2);
  step.expect_row(4, 3.0, 3);
}

TEST(CapiWrapper, CrossSeesTheKeySegment) {
  const auto wrapper = make_wrapper(RAGGED_KIND_CROSS, small_options());
  const Offsets q = {0, 2, 4}, kv = {0, 0, 5};
  const ragged_index cu_q = index_of(q), cu_kv = index_of(kv);
  ASSERT_OK(ragged_wrapper_plan_cross(wrapper.get(), &cu_q, &cu_kv));
  KnownStep step(4, 5);
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(1, 0.0, 0);  // a key segment of 0 tokens
  step.expect_row(2, 2.0, 5);
}

TEST(CapiWrapper, BlockCausalSeesItsBlocks) {
  ragged_wrapper_options options = small_options();
  options.block_size = 2;
  const auto wrapper = make_wrapper(RAGGED_KIND_BLOCK_CAUSAL, options);
  const Offsets offsets = {0, 1, 6};
  const ragged_index cu = index_of(offsets);
  expect_invalid(ragged_wrapper_plan(wrapper.get(), &cu, 1), "causal must be 0");
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  KnownStep step(6, 6);
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(0, 0.0, 1);
  step.expect_row(1, 1.5, 2);
  step.expect_row(3, 2.5, 4);
  step.expect_row(5, 3.0, 5);
}

TEST(CapiWrapper, PrefixedJoinedAndOfTwoSources) {
  const auto wrapper = make_wrapper(RAGGED_KIND_PREFIXED, small_options());
  const Offsets q = {0, 2}, kv = {0, 5}, prefix = {0, 3};
  const ragged_index cu_q = index_of(q), cu_kv = index_of(kv), cu_prefix = index_of(prefix);
  ASSERT_OK(ragged_wrapper_plan_prefixed(wrapper.get(), &cu_q, &cu_kv, 1));
  KnownStep joined(2, 5);
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &joined.arguments));
  joined.expect_row(0, 1.5, 4);
  joined.expect_row(1, 2.0, 5);

  ASSERT_OK(ragged_wrapper_plan_two_sources(wrapper.get(), &cu_q, &cu_prefix, nullptr, 1));
  const KnownStep frozen(3, 3, 10.0F);
  KnownStep fresh(2, 2, 20.0F);
  // Planned for two sources: one alone is refused, and so is half a pair.
  expect_refused(ragged_wrapper_run(wrapper.get(), &fresh.arguments), RAGGED_ERROR_INVALID_STATE,
                 "two sources");
  fresh.arguments.prefix_k = frozen.arguments.k;
  expect_invalid(ragged_wrapper_run(wrapper.get(), &fresh.arguments), "prefix_v");
  fresh.arguments.prefix_v = frozen.arguments.v;
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &fresh.arguments));
  fresh.expect_row(0, (10 + 11 + 12 + 20) / 4.0, 4);
  fresh.expect_row(1, (10 + 11 + 12 + 20 + 21) / 5.0, 5);

  // Fresh keys in offsets of their own.
  const Offsets own = {0, 4};
  const ragged_index cu_own = index_of(own);
  ASSERT_OK(ragged_wrapper_plan_two_sources(wrapper.get(), &cu_q, &cu_prefix, &cu_own, 0));
  KnownStep wide(2, 4, 20.0F);
  wide.arguments.prefix_k = frozen.arguments.k;
  wide.arguments.prefix_v = frozen.arguments.v;
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &wide.arguments));
  wide.expect_row(0, (10 + 11 + 12 + 20 + 21 + 22 + 23) / 7.0, 7);

  const auto self = make_wrapper(RAGGED_KIND_SELF, small_options());
  ASSERT_OK(ragged_wrapper_plan(self.get(), &cu_q, 0));
  expect_invalid(ragged_wrapper_run(self.get(), &fresh.arguments), "prefixed");
}

TEST(CapiWrapper, SpansWithGaps) {
  const Offsets starts = {1, 4}, lengths = {2, 1};
  const ragged_index s = index_of(starts), l = index_of(lengths);
  ragged_spans spans = sized<ragged_spans>();
  spans.starts = &s;
  spans.lengths = &l;
  const auto self = make_wrapper(RAGGED_KIND_SELF, small_options());
  ASSERT_OK(ragged_wrapper_plan_spans(self.get(), &spans, 0));
  KnownStep step(6, 6);
  ASSERT_OK(ragged_wrapper_run(self.get(), &step.arguments));
  for (const std::int64_t gap : {0, 3, 5}) step.expect_untouched(gap);
  step.expect_row(1, 1.5, 2);
  step.expect_row(4, 4.0, 1);

  const auto cross = make_wrapper(RAGGED_KIND_CROSS, small_options());
  const Offsets kv_starts = {0, 3}, kv_lengths = {3, 3};
  const ragged_index ks = index_of(kv_starts), kl = index_of(kv_lengths);
  ragged_spans kv = sized<ragged_spans>();
  kv.starts = &ks;
  kv.lengths = &kl;
  ASSERT_OK(ragged_wrapper_plan_cross_spans(cross.get(), &spans, &kv));
  ASSERT_OK(ragged_wrapper_run(cross.get(), &step.arguments));
  step.expect_row(2, 1.0, 3);
  step.expect_row(4, 4.0, 3);

  const Offsets overlap = {1, 2};
  const ragged_index o = index_of(overlap);
  spans.starts = &o;
  expect_invalid(ragged_wrapper_plan_spans(self.get(), &spans, 0), "");
  spans.starts = nullptr;
  expect_invalid(ragged_wrapper_plan_spans(self.get(), &spans, 0), "starts");
}

TEST(CapiWrapper, OptionsAreRefusedByName) {
  const auto refused = [](auto&& change, const std::string& part) {
    ragged_wrapper_options options = small_options();
    change(options);
    ragged_wrapper* wrapper = reinterpret_cast<ragged_wrapper*>(&options);  // not NULL
    expect_invalid(ragged_wrapper_create(RAGGED_KIND_SELF, &options, &wrapper), part);
    EXPECT_EQ(wrapper, nullptr) << part;
  };
  using O = ragged_wrapper_options;
  refused([](O& o) { o.num_qo_heads = 0; }, "num_qo_heads");
  refused([](O& o) { o.num_kv_heads = 3; }, "num_kv_heads");
  refused([](O& o) { o.head_dim = 100; }, "head_dim");
  refused([](O& o) { o.sm_scale = 1; }, "has_sm_scale");
  refused([](O& o) { o.max_num_segments = -1; }, "max_num_segments");
  refused([](O& o) { o.accelerator_graph = 1; }, "accelerator_graph");
  refused([](O& o) { o.accelerator_graph = 2; }, "accelerator_graph must be 0 or 1");
  refused([](O& o) { o.q_data_type = 9; }, "options->q_data_type");
  refused([](O& o) { o.backend = 9; }, "options->backend");
  refused([](O& o) { o.device.kind = 3; }, "options->device->kind");
  refused([](O& o) { o.threads = -1; }, "threads");
  refused([](O& o) { o.block_size = 4; }, "block_size");
  refused([](O& o) { o.facts = "z80"; }, "z80");
  ragged_wrapper* wrapper = nullptr;
  const ragged_wrapper_options options = small_options();
  expect_invalid(ragged_wrapper_create(4, &options, &wrapper), "kind");
  expect_invalid(ragged_wrapper_create(RAGGED_KIND_BLOCK_CAUSAL, &options, &wrapper), "block_size");
}

TEST(CapiWrapper, NoBackendServesIt) {
  ragged_wrapper_options options = small_options();
  options.backend = RAGGED_BACKEND_SM90;
  ragged_wrapper* raw = nullptr;
  int code = ragged_wrapper_create(RAGGED_KIND_SELF, &options, &raw);
  const Handle<ragged_wrapper> wrapper(raw);
  if (code == RAGGED_OK) {
    const Offsets offsets = {0, 3};
    const ragged_index cu = index_of(offsets);
    code = ragged_wrapper_plan(wrapper.get(), &cu, 0);
  }
  expect_refused(code, RAGGED_ERROR_UNSUPPORTED, "sm90");
}

TEST(CapiWrapper, PlansAreRefusedByName) {
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, small_options());
  const Offsets good = {0, 3}, falling = {0, 12, 8, 16}, shifted = {100, 102};
  ragged_index cu = index_of(good);
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  expect_invalid(ragged_wrapper_plan(wrapper.get(), &cu, 2), "causal must be 0 or 1");

  cu = index_of(falling);
  expect_invalid(ragged_wrapper_plan(wrapper.get(), &cu, 0), "cu_seqlens[2] = 8");
  cu = index_of(shifted);
  expect_invalid(ragged_wrapper_plan(wrapper.get(), &cu, 0), "100");
  cu = index_of(good);
  cu.type = RAGGED_INDEX_NONE;
  expect_invalid(ragged_wrapper_plan(wrapper.get(), &cu, 0), "cu_seqlens->type");
  cu = index_of(good);
  cu.count = -2;
  expect_invalid(ragged_wrapper_plan(wrapper.get(), &cu, 0), "cu_seqlens->count");
  cu = index_of(good);
  cu.data = nullptr;
  expect_invalid(ragged_wrapper_plan(wrapper.get(), &cu, 0), "cu_seqlens->data");
  cu.count = 0;
  expect_invalid(ragged_wrapper_plan(wrapper.get(), &cu, 0), "cu_seqlens");

  // Another kind's plan.
  cu = index_of(good);
  expect_invalid(ragged_wrapper_plan_cross(wrapper.get(), &cu, &cu),
                 "must be of kind cross; got self");
  expect_invalid(ragged_wrapper_plan_prefixed(wrapper.get(), &cu, &cu, 0), "prefixed; got self");
  expect_invalid(ragged_wrapper_plan_two_sources(wrapper.get(), &cu, &cu, nullptr, 0),
                 "prefixed; got self");
  const auto cross = make_wrapper(RAGGED_KIND_CROSS, small_options());
  expect_invalid(ragged_wrapper_plan(cross.get(), &cu, 0), "self or block_causal; got cross");
  const Offsets two = {0, 1, 3};
  const ragged_index cu_two = index_of(two);
  expect_invalid(ragged_wrapper_plan_cross(cross.get(), &cu, &cu_two), "");

  // After every refusal the plan before still works.
  std::int64_t segments = 0;
  EXPECT_OK(ragged_wrapper_num_segments(wrapper.get(), &segments));
  EXPECT_EQ(segments, 1);
  KnownStep step(3, 3);
  EXPECT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(2, 1.0, 3);
}

TEST(CapiWrapper, RunsAreRefusedByName) {
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, small_options());
  KnownStep step(3, 3);
  expect_refused(ragged_wrapper_run(wrapper.get(), &step.arguments), RAGGED_ERROR_NOT_PLANNED, "");
  std::int32_t planned = -1;
  EXPECT_OK(ragged_wrapper_planned(wrapper.get(), &planned));
  EXPECT_EQ(planned, 0);
  std::int64_t segments = 0;
  expect_refused(ragged_wrapper_num_segments(wrapper.get(), &segments), RAGGED_ERROR_NOT_PLANNED,
                 "");
  const ragged_plan* plan = nullptr;
  expect_refused(ragged_wrapper_current_plan(wrapper.get(), &plan), RAGGED_ERROR_NOT_PLANNED, "");

  const Offsets offsets = {0, 3};
  const ragged_index cu = index_of(offsets);
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  EXPECT_OK(ragged_wrapper_planned(wrapper.get(), &planned));
  EXPECT_EQ(planned, 1);
  const auto refused = [&](auto&& change, const std::string& part) {
    KnownStep bad(3, 3);
    change(bad);
    expect_invalid(ragged_wrapper_run(wrapper.get(), &bad.arguments), part);
    for (std::int64_t row = 0; row < 3; ++row) bad.expect_untouched(row);
  };
  refused([](KnownStep& s) { s.tq.shape[0] = 2; }, "q");
  refused([](KnownStep& s) { s.tk.shape[0] = 2; }, "k");
  refused([](KnownStep& s) { s.tv.shape[2] = 16; }, "v");
  refused([](KnownStep& s) { s.to.shape[1] = 1; }, "out");
  refused([](KnownStep& s) { s.tq.dtype = RAGGED_DTYPE_BF16; }, "q");
  refused([](KnownStep& s) { s.tq.dtype = RAGGED_DTYPE_NONE; }, "q->dtype");
  refused([](KnownStep& s) { s.tq.shape[0] = -3; }, "q->shape[0]");
  refused([](KnownStep& s) { s.tq.shape[1] = s.tq.shape[2] = INT64_MAX; }, "q->shape");
  refused([](KnownStep& s) { s.tk.data = nullptr; }, "k");
  refused(
      [](KnownStep& s) {
        s.tv.strides[0] = kHeads * kHeadDim * 2;
        s.tv.strides[1] = kHeadDim * 2;
        s.tv.strides[2] = 2;
      },
      "v");
  refused([](KnownStep& s) { s.tq.device.kind = RAGGED_DEVICE_CUDA; }, "q");
  refused([](KnownStep& s) { s.tl.shape[0] = 2; }, "lse");
  refused([](KnownStep& s) { s.arguments.out = nullptr; }, "out");
  step.arguments.lse = nullptr;  // not asked for
  EXPECT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
}

TEST(CapiWrapper, StridesAreHonoured) {
  // Fused [tokens, 3, heads, head_dim]: q ones, k zeros, v the token's number.
  constexpr std::int64_t row = 3 * kHeads * kHeadDim;
  std::vector<float> fused(4 * row, 1.0F);
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t i = 0; i < kHeads * kHeadDim; ++i) {
      fused[t * row + kHeads * kHeadDim + i] = 0.0F;
      fused[t * row + 2 * kHeads * kHeadDim + i] = static_cast<float>(t);
    }
  }
  KnownStep step(4, 4);
  for (auto* view : {&step.tq, &step.tk, &step.tv}) {
    view->strides[0] = row;
    view->strides[1] = kHeadDim;
    view->strides[2] = 1;
  }
  step.tq.data = fused.data();
  step.tk.data = fused.data() + kHeads * kHeadDim;
  step.tv.data = fused.data() + 2 * kHeads * kHeadDim;
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, small_options());
  const Offsets offsets = {0, 1, 4};
  const ragged_index cu = index_of(offsets);
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(0, 0.0, 1);
  step.expect_row(3, 2.0, 3);
}

TEST(CapiWrapper, CapacityMode) {
  ragged_wrapper_options options = small_options();
  options.accelerator_graph = 1;
  options.max_num_segments = 2;
  options.max_total_tokens = 8;
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, options);
  const Offsets first = {0, 1}, second = {0, 4, 8}, too_many = {0, 1, 2, 3}, too_long = {0, 9};
  KnownStep step(8, 8);
  ragged_index cu = index_of(first);
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  cu = index_of(second);
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  cu = index_of(too_many);
  expect_refused(ragged_wrapper_plan(wrapper.get(), &cu, 0), RAGGED_ERROR_OUT_OF_RANGE, "2");
  cu = index_of(too_long);
  expect_refused(ragged_wrapper_plan(wrapper.get(), &cu, 0), RAGGED_ERROR_OUT_OF_RANGE, "8");
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(7, 5.5, 4);
}

TEST(CapiWrapper, TheCallersScratch) {
  ragged_wrapper_options options = small_options();
  options.accelerator_graph = 1;
  options.max_num_segments = 4;
  options.max_total_tokens = 64;
  std::size_t bytes = 0;
  ASSERT_OK(ragged_wrapper_workspace_bytes(make_wrapper(RAGGED_KIND_SELF, options).get(), &bytes));
  ASSERT_LE(bytes, std::size_t{64} << 20);
  const std::size_t room = bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
  const std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(64, room),
                                                            &std::free);
  options.workspace = scratch.get();
  options.workspace_bytes = bytes;
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, options);
  const Offsets offsets = {0, 3};
  const ragged_index cu = index_of(offsets);
  ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
  KnownStep step(3, 3);
  ASSERT_OK(ragged_wrapper_run(wrapper.get(), &step.arguments));
  step.expect_row(1, 1.0, 3);
}

TEST(CapiWrapper, SaysWhatItPlanned) {
  ragged_wrapper_options options = small_options();
  options.backend = RAGGED_BACKEND_REFERENCE;
  const auto wrapper = make_wrapper(RAGGED_KIND_CROSS, options);
  const Offsets q = {0, 2, 2}, kv = {0, 5, 6};
  const ragged_index cu_q = index_of(q), cu_kv = index_of(kv);
  ASSERT_OK(ragged_wrapper_plan_cross(wrapper.get(), &cu_q, &cu_kv));
  ragged_kind kind = -1;
  EXPECT_OK(ragged_wrapper_kind(wrapper.get(), &kind));
  EXPECT_EQ(kind, RAGGED_KIND_CROSS);

  const ragged_plan* plan = nullptr;
  ASSERT_OK(ragged_wrapper_current_plan(wrapper.get(), &plan));
  ragged_plan_info info = sized<ragged_plan_info>();
  ASSERT_OK(ragged_plan_get_info(plan, &info));
  EXPECT_EQ(info.kind, RAGGED_KIND_CROSS);
  EXPECT_EQ(info.backend, RAGGED_BACKEND_REFERENCE);
  EXPECT_EQ(info.num_segments, 2);
  EXPECT_EQ(info.total_tokens, 2);
  EXPECT_EQ(info.total_kv_tokens, 6);
  EXPECT_EQ(info.flops, 4.0 * (2 * 5) * kHeads * kHeadDim);
  EXPECT_GE(info.num_items, info.num_units);
  EXPECT_GE(info.rows_computed, info.rows_useful);

  const std::string explained = text_of([&](char* buffer, std::size_t capacity, std::size_t* n) {
    return ragged_wrapper_explain(wrapper.get(), buffer, capacity, n);
  });
  EXPECT_NE(explained.find("reference"), std::string::npos);
  EXPECT_EQ(explained, text_of([&](char* buffer, std::size_t capacity, std::size_t* n) {
              return ragged_plan_explain(plan, buffer, capacity, n);
            }));
  const auto json = [&](int with_units) {
    return text_of([&](char* buffer, std::size_t capacity, std::size_t* n) {
      return ragged_wrapper_plan_json(wrapper.get(), with_units, buffer, capacity, n);
    });
  };
  EXPECT_EQ(json(0).front(), '{');
  EXPECT_LT(json(0).size(), json(1).size());
  EXPECT_EQ(json(1), text_of([&](char* buffer, std::size_t capacity, std::size_t* n) {
              return ragged_plan_json(plan, 1, buffer, capacity, n);
            }));
}

}  // namespace
}  // namespace capi_test
