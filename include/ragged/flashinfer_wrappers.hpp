#pragma once

// Wrappers that pin the backend FlashInfer and compute in the caller's workspace: for those who
// come from FlashInfer, whose argument names and layouts these take. docs/flashinfer.md says what
// it serves.

#include <string_view>

#include <ragged/wrappers.hpp>

namespace ragged {

// How K and V lie: tokens before heads, [tokens, num_kv_heads, head_dim], or heads before tokens,
// [num_kv_heads, tokens, head_dim].
enum class KvLayout : std::uint8_t { NHD, HND };

// "NHD", "HND".
std::string_view to_string(KvLayout layout) noexcept;
KvLayout parse_kv_layout(std::string_view text);

struct FlashInferOptions {
  KvLayout kv_layout = KvLayout::NHD;
  // "auto" or "fa2". "fa3", FlashInfer's kernels for Hopper, is not built and refused.
  std::string_view backend = "auto";
};

namespace detail {

// The options with backend and workspace set. Throws invalid_argument for a `backend` that is not
// one of auto, fa2, fa3, or where options.backend pins another one; unsupported for fa3.
WrapperOptions flashinfer_options(Workspace workspace_buffer, WrapperOptions options,
                                  const FlashInferOptions& flashinfer);

// K or V as [tokens, heads, head_dim], in place.
TensorView tokens_first(TensorView tensor, KvLayout layout) noexcept;

}  // namespace detail

// What the three share. `workspace_buffer` is memory of options.device aligned to 256 bytes, of at
// least workspace_bytes(), which is 0 at a head dim that needs no padding. The constructor throws
// what the sibling's throws, and what detail::flashinfer_options() throws; run() what the sibling's
// throws. k and v are in the wrapper's kv_layout; q and out have tokens before heads in both.
template <class Sibling>
class FlashInferTwin : public Sibling {
 public:
  FlashInferTwin(Workspace workspace_buffer, const WrapperOptions& options,
                 const FlashInferOptions& flashinfer = {})
      : Sibling(detail::flashinfer_options(workspace_buffer, options, flashinfer)),
        kv_layout_(flashinfer.kv_layout) {}

  [[nodiscard]] KvLayout kv_layout() const noexcept { return kv_layout_; }

  void run(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const LseView& lse = {}, Stream stream = {}) {
    Sibling::run(q, detail::tokens_first(k, kv_layout_), detail::tokens_first(v, kv_layout_), out,
                 lse, stream);
  }

 private:
  KvLayout kv_layout_;
};

// Ragged self-attention through FlashInfer.
using FlashInferRaggedPrefillWrapper = FlashInferTwin<RaggedPrefillWrapper>;
// Ragged cross-attention through FlashInfer.
using FlashInferRaggedCrossPrefillWrapper = FlashInferTwin<RaggedCrossPrefillWrapper>;
// Prefixed attention through FlashInfer: joined keys. Two sources are declined at plan.
using FlashInferPrefixedPrefillWrapper = FlashInferTwin<PrefixedPrefillWrapper>;

}  // namespace ragged
