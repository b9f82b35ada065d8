#include <ragged/flashinfer_wrappers.hpp>

#include <string>
#include <utility>

namespace ragged {

std::string_view to_string(KvLayout layout) noexcept {
  return layout == KvLayout::HND ? "HND" : "NHD";
}

KvLayout parse_kv_layout(std::string_view text) {
  for (const KvLayout layout : {KvLayout::NHD, KvLayout::HND}) {
    if (text == to_string(layout)) return layout;
  }
  throw Error(ErrorCode::invalid_argument,
              "kv_layout must be NHD or HND; got '" + std::string(text) + "'");
}

namespace detail {

WrapperOptions flashinfer_options(Workspace workspace_buffer, WrapperOptions options,
                                  const FlashInferOptions& flashinfer) {
  const std::string_view backend = flashinfer.backend;
  if (backend == "fa3") {
    throw Error(ErrorCode::unsupported,
                "backend fa3 is not built: of FlashInfer's kernels this library has fa2");
  }
  if (backend != "auto" && backend != "fa2") {
    throw Error(ErrorCode::invalid_argument,
                "backend must be one of auto, fa2, fa3; got '" + std::string(backend) + "'");
  }
  if (options.backend != RaggedAttnBackend::AUTO &&
      options.backend != RaggedAttnBackend::FLASHINFER) {
    throw Error(ErrorCode::invalid_argument, "this wrapper pins flashinfer; got backend " +
                                                 std::string(to_string(options.backend)));
  }
  options.backend = RaggedAttnBackend::FLASHINFER;
  options.workspace = workspace_buffer;
  return options;
}

TensorView tokens_first(TensorView tensor, KvLayout layout) noexcept {
  if (layout == KvLayout::HND) {
    std::swap(tensor.shape[0], tensor.shape[1]);
    std::swap(tensor.strides[0], tensor.strides[1]);
  }
  return tensor;
}

}  // namespace detail
}  // namespace ragged
