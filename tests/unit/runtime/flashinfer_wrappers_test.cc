// The wrappers that pin FlashInfer: what they refuse before any kernel, and how they read K and V.

#include <algorithm>

#include "backends/contract.hpp"
#include "support.hpp"

namespace ragged::test {
namespace {

template <typename Wrapper = FlashInferRaggedPrefillWrapper>
std::string constructor_refusal(const WrapperOptions& options, const FlashInferOptions& flashinfer,
                                ErrorCode code) {
  return refusal(code, [&] { const Wrapper wrapper({}, options, flashinfer); });
}

template <typename Wrapper>
std::string refusal_on_a_cpu() {
  WrapperOptions options = small_options();
  options.q_data_type = DType::bf16;
  return constructor_refusal<Wrapper>(options, {}, ErrorCode::unsupported);
}

TEST(FlashInferWrappers, OnACpuAreRefusedByName) {
  const bool built = std::ranges::any_of(built_backends(), [](const Backend* backend) {
    return backend->id() == RaggedAttnBackend::FLASHINFER;
  });
  const std::string expected = built ? "flashinfer: " : "flashinfer is not built";
  for (const std::string& text : {refusal_on_a_cpu<FlashInferRaggedPrefillWrapper>(),
                                  refusal_on_a_cpu<FlashInferRaggedCrossPrefillWrapper>(),
                                  refusal_on_a_cpu<FlashInferPrefixedPrefillWrapper>()}) {
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  }
}

TEST(FlashInferWrappers, Fa3IsRefusedByName) {
  FlashInferOptions flashinfer;
  flashinfer.backend = "fa3";
  EXPECT_EQ(constructor_refusal(small_options(), flashinfer, ErrorCode::unsupported),
            "backend fa3 is not built: of FlashInfer's kernels this library has fa2");
  flashinfer.backend = "fa9";
  EXPECT_EQ(constructor_refusal(small_options(), flashinfer, ErrorCode::invalid_argument),
            "backend must be one of auto, fa2, fa3; got 'fa9'");
}

TEST(FlashInferWrappers, PinTheBackend) {
  WrapperOptions options = small_options();
  options.backend = RaggedAttnBackend::CPU;
  EXPECT_EQ(constructor_refusal(options, {}, ErrorCode::invalid_argument),
            "this wrapper pins flashinfer; got backend cpu");
}

TEST(FlashInferWrappers, AManagerRefusesFa3WithTheResourcesName) {
  RaggedAttentionSpec spec;
  spec.resource_key = "vision";
  spec.nodes = {"encoder"};
  spec.config.num_qo_heads = spec.config.num_kv_heads = 2;
  spec.config.head_dim = 64;
  spec.config.dtype = DType::bf16;
  spec.config.backend = RaggedAttnBackend::FLASHINFER;
  spec.config.flashinfer_backend = "fa3";
  EXPECT_EQ(
      refusal(ErrorCode::unsupported, [&] { const RaggedAttentionManager manager(spec, {}); }),
      "resource 'vision': flashinfer_backend fa3 is not built: of FlashInfer's kernels this "
      "library has fa2");
}

TEST(FlashInferKvLayout, HeadsFirstIsReadInPlace) {
  std::vector<float> values(std::size_t{3} * 5 * 8);
  // [3 heads, 5 tokens, 8]
  const TensorView given = TensorView::packed(values.data(), DType::fp32, 3, 5, 8);
  const TensorView read = detail::tokens_first(given, KvLayout::HND);
  EXPECT_EQ(read.shape, (std::array<std::int64_t, 3>{5, 3, 8}));
  EXPECT_EQ(read.row(4, 2), values.data() + 2 * 40 + 4 * 8);
  EXPECT_EQ(detail::tokens_first(given, KvLayout::NHD).row(2, 4), read.row(4, 2));
}

TEST(FlashInferKvLayout, NamesAreParsed) {
  EXPECT_EQ(parse_kv_layout("NHD"), KvLayout::NHD);
  EXPECT_EQ(parse_kv_layout("HND"), KvLayout::HND);
  EXPECT_EQ(refusal(ErrorCode::invalid_argument, [] { parse_kv_layout("nhd"); }),
            "kv_layout must be NHD or HND; got 'nhd'");
}

}  // namespace
}  // namespace ragged::test
