#pragma once

// What a model says about its attention once, at load, and which segments a step brings. Standard
// library only: declaring pulls in no plan, no kernel and no device.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ragged/error.hpp>

namespace ragged {

// Element type of q, k, v and out. Accumulation is fp32 for each of them.
enum class DType : std::uint8_t { bf16 = 0, fp16 = 1, fp32 = 2 };

// "bf16", "fp16", "fp32".
std::string_view to_string(DType dtype) noexcept;
// The inverse of to_string. Throws invalid_argument naming the text that came.
DType parse_dtype(std::string_view text);
// 2, 2, 4.
std::int64_t size_bytes(DType dtype) noexcept;

enum class AttentionKind : std::uint8_t { self = 0, cross = 1, block_causal = 2, prefixed = 3 };

// "self", "cross", "block_causal", "prefixed".
std::string_view to_string(AttentionKind kind) noexcept;
AttentionKind parse_kind(std::string_view text);

// Which backend serves. AUTO takes the best one that can; any other value pins that backend, and a
// plan that it cannot serve is refused with its reason.
enum class RaggedAttnBackend : std::uint8_t {
  AUTO = 0,
  FLASHINFER = 1,
  REFERENCE = 2,
  CPU = 3,
  SM80 = 4,
  SM90 = 5,
  CUDNN = 6,
};

// "auto", "flashinfer", "reference", "cpu", "sm80", "sm90", "cudnn".
std::string_view to_string(RaggedAttnBackend backend) noexcept;
RaggedAttnBackend parse_backend(std::string_view text);

// Varlen attention over segments packed into one forward, without a KV cache: the whole layout is
// this step's and nothing carries over to the next.
struct RaggedAttentionConfig {
  int num_qo_heads = 0;                           // before sharding
  int num_kv_heads = 0;                           // before sharding; divides num_qo_heads
  int head_dim = 0;                               // of q, k and v alike; 1..256, a multiple of 8
  std::optional<double> sm_scale = std::nullopt;  // none: head_dim ** -0.5 on the true head dim
  std::int64_t max_segments_per_request = 1;
  std::optional<std::int64_t> max_tokens_per_request = std::nullopt;
  RaggedAttnBackend backend = RaggedAttnBackend::AUTO;
  std::string flashinfer_backend = "auto";    // "auto", "fa2" or "fa3"
  std::optional<DType> dtype = std::nullopt;  // none: the engine's own

  // Head counts as declared, kept by the first shard(); none before it.
  struct HeadCounts {
    int num_qo_heads = 0;
    int num_kv_heads = 0;
    friend bool operator==(const HeadCounts&, const HeadCounts&) = default;
  };
  std::optional<HeadCounts> unsharded = std::nullopt;

  // bs * max_segments_per_request.
  [[nodiscard]] std::int64_t max_segments_for(std::int64_t bs) const;
  // bs * max_tokens_per_request, or nothing where no such ceiling was declared.
  [[nodiscard]] std::optional<std::int64_t> max_tokens_for(std::int64_t bs) const;
  // sm_scale, or head_dim ** -0.5.
  [[nodiscard]] double resolved_sm_scale() const;

  // Narrows the head counts to one rank's slice, always from the unsharded counts, so twice is the
  // same as once. With at least as many shards as key heads, every rank keeps one replicated key
  // head. Throws invalid_argument naming the counts where they do not divide.
  void shard(int num_shards);
  // Throws invalid_argument naming the first field that is out of its range.
  void validate() const;

  // Applies one deployment override. Exactly three keys exist: "flashinfer_backend",
  // "max_segments_per_request", "max_tokens_per_request"; any other is refused by name.
  void override_field(std::string_view key, std::string_view value);

  friend bool operator==(const RaggedAttentionConfig&, const RaggedAttentionConfig&) = default;
};

// One span of one request in the packed layout that its label names.
struct Segment {
  std::string request_id;
  std::string label = "main";
  std::int64_t span = 0;  // tokens; 0 is a segment with no rows
  friend bool operator==(const Segment&, const Segment&) = default;
};

// Segments of a step in declared order; absent, the step inherits the enclosing step's list.
using SegmentList = std::optional<std::vector<Segment>>;
// (q_label, kv_label): every request's q span attends that request's kv span.
using LabelPair = std::pair<std::string, std::string>;

// A step of self-attention or block-causal attention. Block-causal is declared with causal = false.
struct AttentionStep {
  SegmentList segments = std::nullopt;
  bool causal = false;
  friend bool operator==(const AttentionStep&, const AttentionStep&) = default;
};

// A step of cross-attention. Never causal. Segments come with at least one pair.
struct RaggedCrossAttentionStep {
  SegmentList segments = std::nullopt;
  std::vector<LabelPair> pairs = {};
  friend bool operator==(const RaggedCrossAttentionStep&,
                         const RaggedCrossAttentionStep&) = default;
};

// A step of prefixed attention: in each pair (q_label, prefix_label), query segment i attends
// prefix segment i followed by its own tokens. Segments come with at least one pair.
struct RaggedPrefixedAttentionStep {
  SegmentList segments = std::nullopt;
  std::vector<LabelPair> pairs = {};
  bool causal = false;
  bool two_sources = false;  // true: run with prefix K/V and fresh K/V in tensors of their own
  friend bool operator==(const RaggedPrefixedAttentionStep&,
                         const RaggedPrefixedAttentionStep&) = default;
};

// The label of the plan that a pair runs under: "q<-kv".
std::string cross_label(std::string_view q_label, std::string_view kv_label);

// The smallest head dim that FlashInfer supports at or above head_dim: 64, 128 or 256. Throws
// invalid_argument naming 256 above it.
int padded_head_dim(int head_dim);

// A spec is what a model hands to the engine at load: a key, the nodes that use the resource, and
// the config. resource_class() names what builds it, without loading it.
struct RaggedAttentionSpec {
  std::string resource_key;
  std::set<std::string> nodes;
  RaggedAttentionConfig config;
  [[nodiscard]] std::string_view resource_class() const noexcept;
};

struct RaggedCrossAttentionSpec {
  std::string resource_key;
  std::set<std::string> nodes;
  RaggedAttentionConfig config;
  [[nodiscard]] std::string_view resource_class() const noexcept;
};

struct RaggedBlockCausalAttentionSpec {
  std::string resource_key;
  std::set<std::string> nodes;
  RaggedAttentionConfig config;
  std::int64_t block_size = 0;  // tokens; at least 1
  [[nodiscard]] std::string_view resource_class() const noexcept;
};

struct RaggedPrefixedAttentionSpec {
  std::string resource_key;
  std::set<std::string> nodes;
  RaggedAttentionConfig config;
  [[nodiscard]] std::string_view resource_class() const noexcept;
};

using AnyRaggedSpec = std::variant<RaggedAttentionSpec, RaggedCrossAttentionSpec,
                                   RaggedBlockCausalAttentionSpec, RaggedPrefixedAttentionSpec>;

}  // namespace ragged
