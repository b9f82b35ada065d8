#pragma once

// The wrappers of one resource, built at first use and kept as long as the resource.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include <ragged/manager.hpp>

#include "plan_runner.hpp"

namespace ragged::detail {

class LabelRunners {
 public:
  // `options` hold everything but the ceilings of a bucket.
  LabelRunners(AttentionKind kind, const RaggedAttentionConfig& config, WrapperOptions options)
      : kind_(kind), config_(config), options_(std::move(options)) {}

  // The eager runner of (label, slot).
  PlanRunner& eager(const std::string& label, int slot);
  // The captured runner of (bucket, slot, label): max_segments_for(bucket.bs) segments by
  // max(bucket.num_tokens, max_tokens_for(bucket.bs) or 0) tokens, the keys alike. Throws
  // invalid_argument naming a bucket without requests or tokens.
  PlanRunner& captured(const std::string& label, const SlotLease& lease);

 private:
  using Key = std::tuple<std::optional<BucketKey>, int, std::string>;  // none: eager

  PlanRunner& find_or_make(Key key, const WrapperOptions& options);

  AttentionKind kind_;
  RaggedAttentionConfig config_;
  WrapperOptions options_;
  std::map<Key, std::unique_ptr<PlanRunner>> runners_;
};

}  // namespace ragged::detail
