// What a wrapper refuses, with the text that it gives.

#include <algorithm>
#include <cstddef>

#include "backends/contract.hpp"
#include "support.hpp"

namespace ragged::test {
namespace {

template <typename Wrapper = RaggedPrefillWrapper>
std::string constructor_refusal(const WrapperOptions& options,
                                ErrorCode code = ErrorCode::invalid_argument) {
  return refusal(code, [&] { const Wrapper wrapper(options); });
}

TEST(WrapperConstructor, NamesTheOptionThatIsOutOfRange) {
  WrapperOptions options = small_options();
  options.num_qo_heads = 16;
  options.num_kv_heads = 3;
  EXPECT_EQ(constructor_refusal(options),
            "num_qo_heads must be a multiple of num_kv_heads; got 16 and 3");
  options = small_options();
  options.head_dim = 100;
  EXPECT_EQ(constructor_refusal(options), "head_dim must be a multiple of 8 in 8..256; got 100");
  options.head_dim = 0;
  EXPECT_EQ(constructor_refusal(options), "head_dim must be a multiple of 8 in 8..256; got 0");
  options = small_options();
  options.sm_scale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(constructor_refusal(options), "sm_scale must be finite; got nan");
  options = small_options();
  options.threads = -1;
  EXPECT_EQ(constructor_refusal(options), "threads must be at least 0; got -1");
}

TEST(WrapperConstructor, GraphModeNeedsItsCeilings) {
  WrapperOptions options = capacity_options(4, 64);
  options.max_num_segments.reset();
  EXPECT_EQ(constructor_refusal(options),
            "max_num_segments is required with accelerator_graph; none was given");
  options = capacity_options(4, 64);
  options.max_total_tokens.reset();
  EXPECT_EQ(constructor_refusal<RaggedCrossPrefillWrapper>(options),
            "max_total_tokens is required with accelerator_graph; none was given");
  EXPECT_EQ(constructor_refusal(capacity_options(0, 64)),
            "max_num_segments must be at least 1; got 0");
  EXPECT_EQ(constructor_refusal(capacity_options(4, -1)),
            "max_total_tokens must be at least 1; got -1");
  options = capacity_options(4, 64);
  options.max_total_kv_tokens = 0;
  EXPECT_EQ(constructor_refusal<PrefixedPrefillWrapper>(options),
            "max_total_kv_tokens must be at least 1; got 0");
}

TEST(WrapperConstructor, EagerCeilingsMustBePositiveToo) {
  WrapperOptions options = small_options();
  options.max_num_segments = -2;
  EXPECT_EQ(constructor_refusal(options), "max_num_segments must be at least 1; got -2");
}

TEST(WrapperConstructor, BlockSizeBelongsToBlockCausalAlone) {
  WrapperOptions options = small_options();
  EXPECT_EQ(constructor_refusal<RaggedBlockCausalWrapper>(options),
            "block_size must be at least 1; got 0");
  options.block_size = 16;
  EXPECT_EQ(constructor_refusal(options),
            "block_size belongs to block_causal attention alone; got 16 for self");
  EXPECT_EQ(constructor_refusal<PrefixedPrefillWrapper>(options),
            "block_size belongs to block_causal attention alone; got 16 for prefixed");
}

TEST(WrapperConstructor, ADeviceThatNoBackendServesIsUnsupported) {
  WrapperOptions options = small_options();
  options.device = {DeviceKind::cuda, 1};
  const std::string text = constructor_refusal(options, ErrorCode::unsupported);
  EXPECT_NE(text.find("cuda:1"), std::string::npos) << text;
  for (const Backend* backend : built_backends()) {
    EXPECT_NE(text.find(std::string(backend->name()) + ": "), std::string::npos) << text;
  }
}

TEST(WrapperConstructor, APinnedBackendThatIsNotBuiltIsUnsupported) {
  int tried = 0;
  for (const RaggedAttnBackend absent : {RaggedAttnBackend::FLASHINFER, RaggedAttnBackend::CUDNN}) {
    const bool built = std::ranges::any_of(
        built_backends(), [&](const Backend* backend) { return backend->id() == absent; });
    if (built) continue;
    ++tried;
    WrapperOptions options = small_options();
    options.backend = absent;
    const std::string text = constructor_refusal(options, ErrorCode::unsupported);
    const std::string expected = std::string(to_string(absent)) + " is not built";
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  }
  if (tried == 0) GTEST_SKIP() << "this build has every backend";
}

TEST(WrapperConstructor, FactsMustBeOfTheDevice) {
  WrapperOptions options = small_options();
  options.facts = DeviceFacts::parse("h200");
  EXPECT_EQ(constructor_refusal(options), "facts must be of device cpu; got those of cuda:0");
}

TEST(WrapperPlan, NamesTheBadOffset) {
  RaggedPrefillWrapper wrapper(small_options());
  EXPECT_EQ(refusal(ErrorCode::invalid_argument,
                    [&] {
                      wrapper.plan({0, 12, 8, 16});
                    }),
            "cu_seqlens[2] = 8 is less than cu_seqlens[1] = 12");
  EXPECT_EQ(refusal(ErrorCode::invalid_argument,
                    [&] {
                      wrapper.plan({100, 102});
                    }),
            "cu_seqlens[0] must be 0; got 100");
  EXPECT_FALSE(wrapper.planned());
}

TEST(WrapperPlan, NamesTheLayoutOfTwo) {
  RaggedCrossPrefillWrapper cross(small_options());
  EXPECT_EQ(refusal(ErrorCode::invalid_argument,
                    [&] {
                      cross.plan({0, 4}, {0, 7, 3});
                    }),
            "kv_cu_seqlens[2] = 3 is less than kv_cu_seqlens[1] = 7");
  EXPECT_EQ(refusal(ErrorCode::invalid_argument,
                    [&] {
                      cross.plan({0, 4}, {0, 7, 9});
                    }),
            "cross attention pairs segments by position: q has 1 segments, kv has 2");
  PrefixedPrefillWrapper prefixed(small_options());
  EXPECT_EQ(refusal(ErrorCode::invalid_argument,
                    [&] {
                      prefixed.plan_two_sources({0, 4}, {0, 7, 3});
                    }),
            "prefix_cu_seqlens[2] = 3 is less than prefix_cu_seqlens[1] = 7");
  EXPECT_EQ(refusal(ErrorCode::invalid_argument,
                    [&] {
                      prefixed.plan_two_sources({0, 4}, {0, 7}, {1, 2}, false);
                    }),
            "fresh_cu_seqlens[0] must be 0; got 1");
}

TEST(WrapperPlan, EagerCeilingsAreCheckedWhereGiven) {
  WrapperOptions options = small_options();
  options.max_num_segments = 2;
  options.max_total_tokens = 10;
  RaggedPrefillWrapper wrapper(options);
  wrapper.plan({0, 4, 10});
  EXPECT_EQ(refusal(ErrorCode::out_of_range,
                    [&] {
                      wrapper.plan({0, 1, 2, 3});
                    }),
            "cu_seqlens: 3 segments exceed max_num_segments = 2");
  EXPECT_EQ(refusal(ErrorCode::out_of_range,
                    [&] {
                      wrapper.plan({0, 11});
                    }),
            "cu_seqlens: 11 tokens exceed max_total_tokens = 10");
  EXPECT_EQ(wrapper.num_segments(), 2);
}

TEST(WrapperPlan, KeyCeilingDefaultsToTheQueryCeiling) {
  RaggedCrossPrefillWrapper same(capacity_options(2, 10));
  EXPECT_EQ(refusal(ErrorCode::out_of_range,
                    [&] {
                      same.plan({0, 4}, {0, 11});
                    }),
            "kv_cu_seqlens: 11 key tokens exceed max_total_tokens = 10");
  WrapperOptions options = capacity_options(2, 10);
  options.max_total_kv_tokens = 20;
  RaggedCrossPrefillWrapper own(options);
  own.plan({0, 4}, {0, 20});
  EXPECT_EQ(refusal(ErrorCode::out_of_range,
                    [&] {
                      own.plan({0, 4}, {0, 21});
                    }),
            "kv_cu_seqlens: 21 key tokens exceed max_total_kv_tokens = 20");
  PrefixedPrefillWrapper prefixed(options);
  prefixed.plan_two_sources({0, 4}, {0, 16});
  EXPECT_EQ(refusal(ErrorCode::out_of_range,
                    [&] {
                      prefixed.plan_two_sources({0, 4}, {0, 17});
                    }),
            "prefix and fresh keys together: 21 key tokens exceed max_total_kv_tokens = 20");
}

TEST(WrapperRun, NeedsAPlan) {
  RaggedPrefillWrapper wrapper(small_options());
  const Tensors t(4);
  const auto run = [&] { wrapper.run(t.q.view(), t.k.view(), t.v.view(), t.out.view()); };
  EXPECT_EQ(refusal(ErrorCode::not_planned, run), "nothing is planned yet; call plan first");
  EXPECT_EQ(refusal(ErrorCode::not_planned, [&] { (void)wrapper.current_plan(); }),
            "nothing is planned yet; call plan first");
  wrapper.plan({0, 5});
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, run), "q has 4 rows; the plan reads 5");
}

TEST(WrapperRun, MustBeOfThePlansForm) {
  PrefixedPrefillWrapper wrapper(small_options());
  const Tensors t(4, 4);
  const Tensor prefix(3, 2, 16);
  wrapper.plan_two_sources({0, 4}, {0, 3});
  EXPECT_EQ(refusal(ErrorCode::invalid_state,
                    [&] { wrapper.run(t.q.view(), t.k.view(), t.v.view(), t.out.view()); }),
            "the plan is for keys in two sources; the run brings them in one source");
  wrapper.plan({0, 4}, {0, 4});
  EXPECT_EQ(refusal(ErrorCode::invalid_state,
                    [&] {
                      wrapper.run_two_sources(t.q.view(), prefix.view(), prefix.view(), t.k.view(),
                                              t.v.view(), t.out.view());
                    }),
            "the plan is for keys in one source; the run brings them in two sources");
}

TEST(WrapperWorkspace, TheCallersIsChecked) {
  alignas(64) static std::byte scratch[1 << 16];
  WrapperOptions options = small_options();
  options.backend = RaggedAttnBackend::REFERENCE;  // its scratch grows with the longest segment
  options.workspace = {.data = scratch + 1, .bytes = 1024};
  EXPECT_EQ(constructor_refusal(options),
            "workspace.data must be aligned to 64 bytes; it lies 1 bytes past such an address");

  RaggedPrefillWrapper sized([&] {
    WrapperOptions own = options;
    own.workspace = {};
    return own;
  }());
  sized.plan({0, 100});
  const std::size_t needed = sized.workspace_bytes();
  ASSERT_GT(needed, 0U);

  options.workspace = {.data = scratch, .bytes = needed};
  RaggedPrefillWrapper wrapper(options);
  wrapper.plan({0, 100});
  const std::string text = refusal(ErrorCode::invalid_argument, [&] { wrapper.plan({0, 101}); });
  EXPECT_EQ(
      text.find("workspace.bytes = " + std::to_string(needed) + " is less than the plan needs, "),
      0U)
      << text;
  EXPECT_EQ(wrapper.current_plan().layouts.q.total_tokens(), 100);
  EXPECT_EQ(wrapper.workspace_bytes(), needed);
  const Tensors t(100);
  wrapper.run(t.q.view(), t.k.view(), t.v.view(), t.out.view());
}

TEST(WrapperWorkspace, InGraphModeTheConstructorKnowsAndChecks) {
  WrapperOptions options = capacity_options(4, 512);
  options.backend = RaggedAttnBackend::REFERENCE;
  const RaggedPrefillWrapper sized(options);
  ASSERT_GT(sized.workspace_bytes(), 0U);
  alignas(64) static std::byte scratch[1 << 16];
  options.workspace = {.data = scratch, .bytes = sized.workspace_bytes() - 1};
  EXPECT_EQ(constructor_refusal(options),
            "workspace.bytes = " + std::to_string(sized.workspace_bytes() - 1) +
                " is less than the plan needs, " + std::to_string(sized.workspace_bytes()));
}

}  // namespace
}  // namespace ragged::test
