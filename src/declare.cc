#include <ragged/declare.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace ragged {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

template <typename Enum>
struct NamedValue {
  Enum value;
  std::string_view name;
};

constexpr std::array<NamedValue<DType>, 3> kDTypes = {
    {{DType::bf16, "bf16"}, {DType::fp16, "fp16"}, {DType::fp32, "fp32"}}};

constexpr std::array<NamedValue<AttentionKind>, 4> kKinds = {
    {{AttentionKind::self, "self"},
     {AttentionKind::cross, "cross"},
     {AttentionKind::block_causal, "block_causal"},
     {AttentionKind::prefixed, "prefixed"}}};

constexpr std::array<NamedValue<RaggedAttnBackend>, 7> kBackends = {
    {{RaggedAttnBackend::AUTO, "auto"},
     {RaggedAttnBackend::FLASHINFER, "flashinfer"},
     {RaggedAttnBackend::REFERENCE, "reference"},
     {RaggedAttnBackend::CPU, "cpu"},
     {RaggedAttnBackend::SM80, "sm80"},
     {RaggedAttnBackend::SM90, "sm90"},
     {RaggedAttnBackend::CUDNN, "cudnn"}}};

template <typename Enum, std::size_t N>
std::string_view name_of(const std::array<NamedValue<Enum>, N>& table, Enum value) noexcept {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.name;
  }
  return "unknown";
}

template <typename Enum, std::size_t N>
Enum value_of(const std::array<NamedValue<Enum>, N>& table, std::string_view what,
              std::string_view text) {
  std::string known;
  for (const auto& entry : table) {
    if (entry.name == text) return entry.value;
    known += known.empty() ? "" : ", ";
    known += entry.name;
  }
  refuse(std::string(what) + " must be one of " + known + "; got '" + std::string(text) + "'");
}

// count * per_request, refused where a factor is out of range or the product leaves 64 bits.
std::int64_t ceiling_for(std::string_view field, std::int64_t bs, std::int64_t per_request) {
  if (bs < 0) refuse("bs must be at least 0; got " + std::to_string(bs));
  if (bs != 0 && per_request > std::numeric_limits<std::int64_t>::max() / bs) {
    refuse(std::string(field) + " = " + std::to_string(per_request) +
           " times bs = " + std::to_string(bs) + " leaves 64 bits");
  }
  return bs * per_request;
}

std::int64_t parse_positive(std::string_view key, std::string_view value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 1) {
    refuse(std::string(key) + " must be a whole number of at least 1; got '" + std::string(value) +
           "'");
  }
  return number;
}

bool known_flashinfer_backend(std::string_view name) {
  return name == "auto" || name == "fa2" || name == "fa3";
}

}  // namespace

std::string_view to_string(DType dtype) noexcept { return name_of(kDTypes, dtype); }
DType parse_dtype(std::string_view text) { return value_of(kDTypes, "dtype", text); }

std::int64_t size_bytes(DType dtype) noexcept { return dtype == DType::fp32 ? 4 : 2; }

std::string_view to_string(AttentionKind kind) noexcept { return name_of(kKinds, kind); }
AttentionKind parse_kind(std::string_view text) { return value_of(kKinds, "kind", text); }

std::string_view to_string(RaggedAttnBackend backend) noexcept {
  return name_of(kBackends, backend);
}
RaggedAttnBackend parse_backend(std::string_view text) {
  return value_of(kBackends, "backend", text);
}

std::int64_t RaggedAttentionConfig::max_segments_for(std::int64_t bs) const {
  return ceiling_for("max_segments_per_request", bs, max_segments_per_request);
}

std::optional<std::int64_t> RaggedAttentionConfig::max_tokens_for(std::int64_t bs) const {
  if (!max_tokens_per_request) return std::nullopt;
  return ceiling_for("max_tokens_per_request", bs, *max_tokens_per_request);
}

double RaggedAttentionConfig::resolved_sm_scale() const {
  return sm_scale ? *sm_scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

void RaggedAttentionConfig::shard(int num_shards) {
  if (num_shards < 1) {
    refuse("num_shards must be at least 1; got " + std::to_string(num_shards));
  }
  const HeadCounts whole = unsharded.value_or(HeadCounts{num_qo_heads, num_kv_heads});
  if (whole.num_qo_heads % num_shards != 0) {
    refuse("num_qo_heads = " + std::to_string(whole.num_qo_heads) + " does not divide over " +
           std::to_string(num_shards) + " shards");
  }
  // A rank's query heads must belong to its own key heads, also where one is replicated.
  const bool replicate = num_shards >= whole.num_kv_heads;
  const bool divides =
      replicate ? num_shards % whole.num_kv_heads == 0 : whole.num_kv_heads % num_shards == 0;
  if (!divides) {
    refuse("num_kv_heads = " + std::to_string(whole.num_kv_heads) + " does not divide over " +
           std::to_string(num_shards) + " shards");
  }
  unsharded = whole;
  num_qo_heads = whole.num_qo_heads / num_shards;
  num_kv_heads = replicate ? 1 : whole.num_kv_heads / num_shards;
}

void RaggedAttentionConfig::validate() const {
  if (num_qo_heads < 1) {
    refuse("num_qo_heads must be at least 1; got " + std::to_string(num_qo_heads));
  }
  if (num_kv_heads < 1) {
    refuse("num_kv_heads must be at least 1; got " + std::to_string(num_kv_heads));
  }
  if (num_qo_heads % num_kv_heads != 0) {
    refuse("num_qo_heads must be a multiple of num_kv_heads; got " + std::to_string(num_qo_heads) +
           " and " + std::to_string(num_kv_heads));
  }
  if (head_dim < 8 || head_dim > 256 || head_dim % 8 != 0) {
    refuse("head_dim must be a multiple of 8 in 8..256; got " + std::to_string(head_dim));
  }
  if (sm_scale && !std::isfinite(*sm_scale)) {
    refuse("sm_scale must be finite; got " + std::to_string(*sm_scale));
  }
  if (max_segments_per_request < 1) {
    refuse("max_segments_per_request must be at least 1; got " +
           std::to_string(max_segments_per_request));
  }
  if (max_tokens_per_request && *max_tokens_per_request < 1) {
    refuse("max_tokens_per_request must be at least 1; got " +
           std::to_string(*max_tokens_per_request));
  }
  if (!known_flashinfer_backend(flashinfer_backend)) {
    refuse("flashinfer_backend must be one of auto, fa2, fa3; got '" + flashinfer_backend + "'");
  }
}

void RaggedAttentionConfig::override_field(std::string_view key, std::string_view value) {
  if (key == "flashinfer_backend") {
    if (!known_flashinfer_backend(value)) {
      refuse("flashinfer_backend must be one of auto, fa2, fa3; got '" + std::string(value) + "'");
    }
    flashinfer_backend = value;
  } else if (key == "max_segments_per_request") {
    max_segments_per_request = parse_positive(key, value);
  } else if (key == "max_tokens_per_request") {
    max_tokens_per_request = parse_positive(key, value);
  } else {
    refuse("a deployment may override flashinfer_backend, max_segments_per_request and " +
           std::string("max_tokens_per_request; got '") + std::string(key) + "'");
  }
}

std::string cross_label(std::string_view q_label, std::string_view kv_label) {
  std::string label(q_label);
  label += "<-";
  label += kv_label;
  return label;
}

int padded_head_dim(int head_dim) {
  if (head_dim < 1) refuse("head_dim must be at least 1; got " + std::to_string(head_dim));
  for (const int supported : {64, 128, 256}) {
    if (head_dim <= supported) return supported;
  }
  refuse("head_dim = " + std::to_string(head_dim) +
         " exceeds the largest that FlashInfer supports, 256");
}

// One manager builds every kind of spec; it picks the wrappers by the spec's type.
std::string_view RaggedAttentionSpec::resource_class() const noexcept {
  return "ragged::RaggedAttentionManager";
}
std::string_view RaggedCrossAttentionSpec::resource_class() const noexcept {
  return "ragged::RaggedAttentionManager";
}
std::string_view RaggedBlockCausalAttentionSpec::resource_class() const noexcept {
  return "ragged::RaggedAttentionManager";
}
std::string_view RaggedPrefixedAttentionSpec::resource_class() const noexcept {
  return "ragged::RaggedAttentionManager";
}

}  // namespace ragged
