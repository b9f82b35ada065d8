#pragma once

// Resources and steps of the manager tests.

#include "support.hpp"

namespace ragged::test {

// 4 query heads over 2 key heads of 16, as Tensors.
inline RaggedAttentionConfig small_config() {
  RaggedAttentionConfig config;
  config.num_qo_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.dtype = DType::fp32;
  return config;
}

inline RaggedAttentionSpec self_spec() { return {"vision", {"encoder"}, small_config()}; }

inline std::vector<Segment> segments_of(const std::string& label, const Offsets& spans) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    segments.push_back({"r" + std::to_string(i), label, spans[i]});
  }
  return segments;
}

inline AttentionStep step_of(const Offsets& spans, bool causal = false) {
  return {.segments = segments_of("main", spans), .causal = causal};
}

inline PlanContext leased(int slot, std::int64_t bs = 4, std::int64_t num_tokens = 64) {
  SlotLease lease;
  lease.slot = slot;
  lease.bucket = {.graph_walk = "encode", .bs = bs, .num_tokens = num_tokens, .extra = ""};
  PlanContext context;
  context.lease = lease;
  return context;
}

}  // namespace ragged::test
