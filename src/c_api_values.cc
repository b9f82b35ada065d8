#include "c_api_values.hpp"

#include <array>

namespace ragged::capi {
namespace {

static_assert(RAGGED_OK == static_cast<int>(ErrorCode::ok));
static_assert(RAGGED_ERROR_INVALID_ARGUMENT == static_cast<int>(ErrorCode::invalid_argument));
static_assert(RAGGED_ERROR_OUT_OF_RANGE == static_cast<int>(ErrorCode::out_of_range));
static_assert(RAGGED_ERROR_UNSUPPORTED == static_cast<int>(ErrorCode::unsupported));
static_assert(RAGGED_ERROR_NOT_PLANNED == static_cast<int>(ErrorCode::not_planned));
static_assert(RAGGED_ERROR_INVALID_STATE == static_cast<int>(ErrorCode::invalid_state));
static_assert(RAGGED_ERROR_DEVICE == static_cast<int>(ErrorCode::device));
static_assert(RAGGED_ERROR_OUT_OF_MEMORY == static_cast<int>(ErrorCode::out_of_memory));
static_assert(RAGGED_ERROR_INTERNAL == static_cast<int>(ErrorCode::internal));

static_assert(RAGGED_KIND_SELF == static_cast<int>(AttentionKind::self));
static_assert(RAGGED_KIND_CROSS == static_cast<int>(AttentionKind::cross));
static_assert(RAGGED_KIND_BLOCK_CAUSAL == static_cast<int>(AttentionKind::block_causal));
static_assert(RAGGED_KIND_PREFIXED == static_cast<int>(AttentionKind::prefixed));

static_assert(RAGGED_BACKEND_AUTO == static_cast<int>(RaggedAttnBackend::AUTO));
static_assert(RAGGED_BACKEND_FLASHINFER == static_cast<int>(RaggedAttnBackend::FLASHINFER));
static_assert(RAGGED_BACKEND_REFERENCE == static_cast<int>(RaggedAttnBackend::REFERENCE));
static_assert(RAGGED_BACKEND_CPU == static_cast<int>(RaggedAttnBackend::CPU));
static_assert(RAGGED_BACKEND_SM80 == static_cast<int>(RaggedAttnBackend::SM80));
static_assert(RAGGED_BACKEND_SM90 == static_cast<int>(RaggedAttnBackend::SM90));
static_assert(RAGGED_BACKEND_CUDNN == static_cast<int>(RaggedAttnBackend::CUDNN));

static_assert(RAGGED_DEVICE_CPU == static_cast<int>(DeviceKind::cpu));
static_assert(RAGGED_DEVICE_CUDA == static_cast<int>(DeviceKind::cuda));

// Refused unless `value` lies in [first, last].
void check_range(std::int32_t value, std::int32_t first, std::int32_t last, const char* argument) {
  if (value < first || value > last) {
    refuse(std::string(argument) + " must be in " + std::to_string(first) + ".." +
           std::to_string(last) + "; got " + std::to_string(value));
  }
}

std::string field(const char* argument, const char* name) {
  return std::string(argument) + "->" + name;
}

// The strides as given, or those of a dense tensor where all are 0.
template <std::size_t N>
std::array<std::int64_t, N> strides_of(const std::int64_t (&shape)[N],
                                       const std::int64_t (&strides)[N], const char* argument) {
  std::array<std::int64_t, N> result = {};
  bool dense = true;
  for (std::size_t i = 0; i < N; ++i) {
    result[i] = strides[i];
    dense = dense && strides[i] == 0;
    if (shape[i] < 0) {
      refuse(std::string(argument) + "->shape[" + std::to_string(i) + "] must be at least 0; got " +
             std::to_string(shape[i]));
    }
  }
  if (!dense) return result;
  std::int64_t step = 1;
  for (std::size_t i = N; i-- > 0;) {
    result[i] = step;
    if (__builtin_mul_overflow(step, shape[i], &step)) {
      refuse(std::string(argument) + "->shape holds more elements than 64 bits count");
    }
  }
  return result;
}

// The three spellings that a config may hold, as text that outlives every struct.
const char* static_flashinfer_backend(std::string_view name) noexcept {
  return name == "fa2" ? "fa2" : (name == "fa3" ? "fa3" : "auto");
}

}  // namespace

AttentionKind to_kind(ragged_kind kind, const char* argument) {
  check_range(kind, RAGGED_KIND_SELF, RAGGED_KIND_PREFIXED, argument);
  return static_cast<AttentionKind>(kind);
}

RaggedAttnBackend to_backend(ragged_backend backend, const char* argument) {
  check_range(backend, RAGGED_BACKEND_AUTO, RAGGED_BACKEND_CUDNN, argument);
  return static_cast<RaggedAttnBackend>(backend);
}

std::optional<DType> to_optional_dtype(ragged_dtype dtype, const char* argument) {
  check_range(dtype, RAGGED_DTYPE_NONE, RAGGED_DTYPE_FP32, argument);
  if (dtype == RAGGED_DTYPE_NONE) return std::nullopt;
  return static_cast<DType>(dtype - 1);
}

DType to_dtype(ragged_dtype dtype, const char* argument) {
  check_range(dtype, RAGGED_DTYPE_BF16, RAGGED_DTYPE_FP32, argument);
  return static_cast<DType>(dtype - 1);
}

ragged_dtype from_dtype(DType dtype) noexcept { return static_cast<ragged_dtype>(dtype) + 1; }

Device to_device(ragged_device device, const char* argument) {
  check_range(device.kind, RAGGED_DEVICE_CPU, RAGGED_DEVICE_CUDA, field(argument, "kind").c_str());
  return {static_cast<DeviceKind>(device.kind), device.index};
}

std::optional<double> to_sm_scale(std::int32_t has_sm_scale, double sm_scale) {
  if (flag(has_sm_scale, "has_sm_scale")) return sm_scale;
  if (sm_scale != 0.0) {
    refuse("has_sm_scale must be 1 where sm_scale is given; got 0 with " +
           std::to_string(sm_scale));
  }
  return std::nullopt;
}

std::optional<std::int64_t> to_ceiling(std::int64_t value) noexcept {
  if (value == 0) return std::nullopt;
  return value;
}

TensorView to_tensor(const ragged_tensor* tensor, const char* argument) {
  const ragged_tensor c = read(tensor, argument);
  reserved(c.reserved, "reserved");
  TensorView view;
  view.data = c.data;
  view.dtype = to_dtype(c.dtype, field(argument, "dtype").c_str());
  view.shape = {c.shape[0], c.shape[1], c.shape[2]};
  view.strides = strides_of(c.shape, c.strides, argument);
  view.device = to_device(c.device, argument);
  return view;
}

LseView to_lse(const ragged_lse* lse, const char* argument) {
  const ragged_lse c = read(lse, argument);
  LseView view;
  view.data = c.data;
  view.shape = {c.shape[0], c.shape[1]};
  view.strides = strides_of(c.shape, c.strides, argument);
  view.device = to_device(c.device, argument);
  return view;
}

LseView to_optional_lse(const ragged_lse* lse, const char* argument) {
  return lse == nullptr ? LseView{} : to_lse(lse, argument);
}

IndexView to_index(const ragged_index* index, const char* argument) {
  const ragged_index c = read(index, argument);
  reserved(c.reserved, "reserved");
  check_range(c.type, RAGGED_INDEX_INT32, RAGGED_INDEX_INT64, field(argument, "type").c_str());
  if (c.count < 0) {
    refuse(field(argument, "count") + " must be at least 0; got " + std::to_string(c.count));
  }
  if (c.count > 0) require(c.data, field(argument, "data").c_str());
  return {c.data, static_cast<IndexType>(c.type - 1), c.count, c.stride == 0 ? 1 : c.stride,
          to_device(c.device, argument)};
}

SegmentSpans to_spans(const ragged_spans* spans, const char* argument) {
  const ragged_spans c = read(spans, argument);
  return {to_index(c.starts, field(argument, "starts").c_str()),
          to_index(c.lengths, field(argument, "lengths").c_str())};
}

PaddedView to_padded(const ragged_padded* padded, const char* argument) {
  const ragged_padded c = read(padded, argument);
  reserved(c.reserved, "reserved");
  PaddedView view;
  view.data = c.data;
  view.dtype = to_dtype(c.dtype, field(argument, "dtype").c_str());
  view.shape = {c.shape[0], c.shape[1], c.shape[2], c.shape[3]};
  view.strides = strides_of(c.shape, c.strides, argument);
  return view;
}

RaggedAttentionConfig to_config(const ragged_config* config, const char* argument) {
  const ragged_config c = read(config, argument);
  RaggedAttentionConfig result;
  result.num_qo_heads = c.num_qo_heads;
  result.num_kv_heads = c.num_kv_heads;
  result.head_dim = c.head_dim;
  result.sm_scale = to_sm_scale(c.has_sm_scale, c.sm_scale);
  result.max_segments_per_request =
      c.max_segments_per_request == 0 ? 1 : c.max_segments_per_request;
  result.max_tokens_per_request = to_ceiling(c.max_tokens_per_request);
  result.backend = to_backend(c.backend, field(argument, "backend").c_str());
  result.flashinfer_backend = text_or(c.flashinfer_backend, "auto");
  result.dtype = to_optional_dtype(c.dtype, field(argument, "dtype").c_str());
  if (c.unsharded_num_qo_heads != 0 || c.unsharded_num_kv_heads != 0) {
    if (c.unsharded_num_qo_heads < 1 || c.unsharded_num_kv_heads < 1) {
      refuse("unsharded_num_qo_heads and unsharded_num_kv_heads must both be at least 1, or both " +
             std::string("0; got ") + std::to_string(c.unsharded_num_qo_heads) + " and " +
             std::to_string(c.unsharded_num_kv_heads));
    }
    result.unsharded = {c.unsharded_num_qo_heads, c.unsharded_num_kv_heads};
  }
  return result;
}

ragged_config from_config(const RaggedAttentionConfig& config) noexcept {
  ragged_config c = {};
  c.struct_size = sizeof(c);
  c.num_qo_heads = config.num_qo_heads;
  c.num_kv_heads = config.num_kv_heads;
  c.head_dim = config.head_dim;
  c.has_sm_scale = config.sm_scale.has_value() ? 1 : 0;
  c.sm_scale = config.sm_scale.value_or(0.0);
  c.max_segments_per_request = config.max_segments_per_request;
  c.max_tokens_per_request = config.max_tokens_per_request.value_or(0);
  c.backend = static_cast<ragged_backend>(config.backend);
  c.dtype = config.dtype ? from_dtype(*config.dtype) : RAGGED_DTYPE_NONE;
  c.flashinfer_backend = static_flashinfer_backend(config.flashinfer_backend);
  if (config.unsharded) {
    c.unsharded_num_qo_heads = config.unsharded->num_qo_heads;
    c.unsharded_num_kv_heads = config.unsharded->num_kv_heads;
  }
  return c;
}

}  // namespace ragged::capi
