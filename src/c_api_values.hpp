#pragma once

// The C structs as the C++ values that they stand for. Each throws invalid_argument naming
// `argument` and the field.

#include <optional>
#include <vector>

#include <ragged/c/config.h>
#include <ragged/c/helpers.h>
#include <ragged/c/plan.h>
#include <ragged/c/tensor.h>
#include <ragged/helpers.hpp>
#include <ragged/plan.hpp>

#include "c_api.hpp"

namespace ragged::capi {

AttentionKind to_kind(ragged_kind kind, const char* argument);
RaggedAttnBackend to_backend(ragged_backend backend, const char* argument);
// RAGGED_DTYPE_NONE: nothing.
std::optional<DType> to_optional_dtype(ragged_dtype dtype, const char* argument);
DType to_dtype(ragged_dtype dtype, const char* argument);
ragged_dtype from_dtype(DType dtype) noexcept;
Device to_device(ragged_device device, const char* argument);
// A scale without its flag would be ignored in silence: refused.
std::optional<double> to_sm_scale(std::int32_t has_sm_scale, double sm_scale);
// 0: nothing. Negative values pass on, to be refused by whoever knows the field.
std::optional<std::int64_t> to_ceiling(std::int64_t value) noexcept;

TensorView to_tensor(const ragged_tensor* tensor, const char* argument);
LseView to_lse(const ragged_lse* lse, const char* argument);
// A null `lse`: not asked for.
LseView to_optional_lse(const ragged_lse* lse, const char* argument);
IndexView to_index(const ragged_index* index, const char* argument);
SegmentSpans to_spans(const ragged_spans* spans, const char* argument);
PaddedView to_padded(const ragged_padded* padded, const char* argument);

RaggedAttentionConfig to_config(const ragged_config* config, const char* argument);
ragged_config from_config(const RaggedAttentionConfig& config) noexcept;

inline const ragged_plan* to_handle(const Plan& plan) noexcept {
  return reinterpret_cast<const ragged_plan*>(&plan);
}
inline const Plan& from_handle(const ragged_plan* plan) {
  require(plan, "plan");
  return *reinterpret_cast<const Plan*>(plan);
}

}  // namespace ragged::capi
