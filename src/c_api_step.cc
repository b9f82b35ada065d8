#include "c_api_step.hpp"

namespace ragged::capi {
namespace {

std::vector<Segment> to_segments(const ragged_segment* segments, std::size_t count,
                                 const char* argument) {
  std::vector<Segment> result;
  if (count == 0) return result;
  const std::size_t stride = checked_size(segments, alignof(ragged_segment), argument);
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ragged_segment c = read_element(segments, stride, i, argument);
    if (c.request_id == nullptr) {
      refuse(std::string(argument) + "[" + std::to_string(i) + "].request_id must not be NULL");
    }
    result.push_back({.request_id = c.request_id,
                      .label = std::string(text_or(c.label, "main")),
                      .span = c.span});
  }
  return result;
}

std::vector<LabelPair> to_pairs(const ragged_label_pair* pairs, std::size_t count) {
  std::vector<LabelPair> result;
  if (count == 0) return result;
  const std::size_t stride = checked_size(pairs, alignof(ragged_label_pair), "pairs");
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ragged_label_pair c = read_element(pairs, stride, i, "pairs");
    result.emplace_back(text(c.q_label, "pairs[].q_label"), text(c.kv_label, "pairs[].kv_label"));
  }
  return result;
}

SegmentList to_segment_list(const ragged_step& c) {
  if (flag(c.has_segments, "step->has_segments")) {
    return to_segments(c.segments, c.num_segments, "segments");
  }
  if (c.num_segments != 0) {
    refuse("step->has_segments must be 1 where segments are given; got 0 with num_segments = " +
           std::to_string(c.num_segments));
  }
  return std::nullopt;
}

void no_pairs(const ragged_step& c) {
  if (c.num_pairs != 0) {
    refuse("step->num_pairs must be 0 for RAGGED_STEP_ATTENTION; got " +
           std::to_string(c.num_pairs));
  }
}

void not_set(std::int32_t value, const char* argument, const char* type) {
  if (flag(value, argument)) refuse(std::string(argument) + " must be 0 for " + type + "; got 1");
}

template <typename Spec>
Spec common(const ragged_spec& c) {
  Spec spec;
  spec.resource_key = text(c.resource_key, "spec->resource_key");
  if (c.num_nodes > 0) require(c.nodes, "spec->nodes");
  for (std::size_t i = 0; i < c.num_nodes; ++i) {
    spec.nodes.emplace(text(c.nodes[i], "spec->nodes[]"));
  }
  spec.config = to_config(c.config, "spec->config");
  return spec;
}

}  // namespace

AnyRaggedSpec to_spec(const ragged_spec* spec) {
  const ragged_spec c = read(spec, "spec");
  reserved(c.reserved, "spec->reserved");
  const AttentionKind kind = to_kind(c.kind, "spec->kind");
  if (kind != AttentionKind::block_causal && c.block_size != 0) {
    refuse("spec->block_size must be 0 for kind " + std::string(to_string(kind)) + "; got " +
           std::to_string(c.block_size));
  }
  switch (kind) {
    case AttentionKind::self:
      return common<RaggedAttentionSpec>(c);
    case AttentionKind::cross:
      return common<RaggedCrossAttentionSpec>(c);
    case AttentionKind::block_causal: {
      auto blocks = common<RaggedBlockCausalAttentionSpec>(c);
      blocks.block_size = c.block_size;
      return blocks;
    }
    case AttentionKind::prefixed:
      return common<RaggedPrefixedAttentionSpec>(c);
  }
  throw Error(ErrorCode::internal, "spec->kind is none of the four");
}

AnyStep to_step(const ragged_step* step) {
  const ragged_step c = read(step, "step");
  switch (c.type) {
    case RAGGED_STEP_ATTENTION:
      no_pairs(c);
      not_set(c.two_sources, "step->two_sources", "RAGGED_STEP_ATTENTION");
      return AttentionStep{.segments = to_segment_list(c),
                           .causal = flag(c.causal, "step->causal")};
    case RAGGED_STEP_CROSS:
      not_set(c.causal, "step->causal", "RAGGED_STEP_CROSS");
      not_set(c.two_sources, "step->two_sources", "RAGGED_STEP_CROSS");
      return RaggedCrossAttentionStep{.segments = to_segment_list(c),
                                      .pairs = to_pairs(c.pairs, c.num_pairs)};
    case RAGGED_STEP_PREFIXED:
      return RaggedPrefixedAttentionStep{.segments = to_segment_list(c),
                                         .pairs = to_pairs(c.pairs, c.num_pairs),
                                         .causal = flag(c.causal, "step->causal"),
                                         .two_sources = flag(c.two_sources, "step->two_sources")};
    default:
      refuse("step->type must be one of RAGGED_STEP_ATTENTION, _CROSS, _PREFIXED; got " +
             std::to_string(c.type));
  }
}

StepContext::StepContext(const ragged_plan_context* context) {
  if (context == nullptr) return;
  const ragged_plan_context c = read(context, "context");
  reserved(c.reserved, "context->reserved");
  if (c.lease != nullptr) {
    const ragged_slot_lease lease = read(c.lease, "lease");
    reserved(lease.reserved, "lease->reserved");
    context_.lease = SlotLease{.slot = lease.slot,
                               .bucket = {.graph_walk = std::string(text_or(lease.graph_walk, "")),
                                          .bs = lease.bs,
                                          .num_tokens = lease.num_tokens,
                                          .extra = std::string(text_or(lease.extra, ""))}};
  }
  context_.slot = c.slot;
  context_.stream.handle = c.stream;
  inherited_ = to_segments(c.inherited_segments, c.num_inherited_segments, "inherited_segments");
  context_.inherited_segments = inherited_;
}

}  // namespace ragged::capi
