#include "manager_runners.hpp"

#include <algorithm>

namespace ragged::detail {

PlanRunner& LabelRunners::eager(const std::string& label, int slot) {
  return find_or_make({std::nullopt, slot, label}, options_);
}

PlanRunner& LabelRunners::captured(const std::string& label, const SlotLease& lease) {
  const BucketKey& bucket = lease.bucket;
  if (bucket.bs < 1) {
    throw Error(ErrorCode::invalid_argument,
                "lease.bucket.bs must be at least 1; got " + std::to_string(bucket.bs));
  }
  const std::int64_t max_total_tokens =
      std::max(bucket.num_tokens, config_.max_tokens_for(bucket.bs).value_or(0));
  if (max_total_tokens < 1) {
    throw Error(ErrorCode::invalid_argument,
                "lease.bucket.num_tokens must be at least 1 where the config has no "
                "max_tokens_per_request; got " +
                    std::to_string(bucket.num_tokens));
  }
  WrapperOptions options = options_;
  options.accelerator_graph = true;
  options.max_num_segments = config_.max_segments_for(bucket.bs);
  options.max_total_tokens = max_total_tokens;
  return find_or_make({bucket, lease.slot, label}, options);
}

PlanRunner& LabelRunners::find_or_make(Key key, const WrapperOptions& options) {
  auto entry = runners_.find(key);
  if (entry == runners_.end()) {
    auto runner = std::make_unique<PlanRunner>(kind_, options);
    entry = runners_.emplace(std::move(key), std::move(runner)).first;
  }
  return *entry->second;
}

}  // namespace ragged::detail
