#pragma once

// One resource for each spec: labels to wrappers, eager and captured slots, plan a step, run by
// label.

#include <functional>

#include <ragged/wrappers.hpp>

namespace ragged {

// Which captured graph a step replays.
struct BucketKey {
  std::string graph_walk;
  std::int64_t bs = 0;          // requests
  std::int64_t num_tokens = 0;  // token count of the bucket
  std::string extra;            // for diffusion transformers, the latent shape
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a pointer in the compiler's own 0.
  friend auto operator<=>(const BucketKey&, const BucketKey&) = default;
};

// The right to plan into one captured slot: selects the wrapper of (bucket, slot, label).
struct SlotLease {
  int slot = 0;
  BucketKey bucket;
  friend bool operator==(const SlotLease&, const SlotLease&) = default;
};

struct PlanContext {
  std::optional<SlotLease> lease = std::nullopt;  // none: eager, the wrapper of (label, slot)
  int slot = 0;                                   // eager only
  // Segments of the enclosing step, for a resource step that gives none.
  std::span<const Segment> inherited_segments = {};
  Stream stream = {};  // that the step is planned on, on a GPU
};

struct EngineOptions {
  Device device = {};
  std::optional<DType> dtype = std::nullopt;  // activation dtype, where the config names none
  // Tensor times sequence parallel degree; 1 is no group, and leaves a config that was sharded
  // before as it is.
  int num_shards = 1;
  int num_slots = 2;
  int threads = 0;
  Executor* executor = nullptr;
};

class RaggedAttentionManager;

// One label of one resource, bound once: q, k, v -> out. Lives no longer than its manager.
class RaggedAttentionCallable {
 public:
  RaggedAttentionCallable(RaggedAttentionManager& manager, std::string label)
      : manager_(&manager), label_(std::move(label)) {}
  [[nodiscard]] const std::string& label() const noexcept { return label_; }
  void operator()(const TensorView& q, const TensorView& k, const TensorView& v,
                  const TensorView& out, const LseView& lse = {}, Stream stream = {}) const;

 private:
  RaggedAttentionManager* manager_;
  std::string label_;
};

class RaggedAttentionManager {
 public:
  // Throws invalid_argument: a config out of range, heads that do not divide over the shards, or no
  // dtype (naming the resource and where to set it).
  explicit RaggedAttentionManager(const AnyRaggedSpec& spec, const EngineOptions& engine = {});
  ~RaggedAttentionManager();
  RaggedAttentionManager(RaggedAttentionManager&&) noexcept;
  RaggedAttentionManager& operator=(RaggedAttentionManager&&) noexcept;

  [[nodiscard]] const std::string& resource_key() const;
  [[nodiscard]] AttentionKind kind() const;
  // This rank's config, dtype resolved.
  [[nodiscard]] const RaggedAttentionConfig& config() const;

  // Plans every label (self, block-causal) or pair (cross, prefixed) of the step; a label that the
  // step does not declare cannot be run afterwards. A pending preplan is promoted if this step and
  // lease are the ones that were preplanned, else refused (invalid_state; the pending one stays).
  // The step type must be the resource's own. On a throw no label is planned.
  void plan(const AttentionStep& step, const PlanContext& context = {});
  void plan(const RaggedCrossAttentionStep& step, const PlanContext& context = {});
  void plan(const RaggedPrefixedAttentionStep& step, const PlanContext& context = {});

  // Plans step N+1 while step N runs. Needs a lease, of another slot or bucket than the current
  // step's: a captured wrapper holds one step. One preplan may be pending. Refused as
  // invalid_state; on a throw the current step and a pending preplan are as before.
  void preplan(const AttentionStep& step, const PlanContext& context);
  void preplan(const RaggedCrossAttentionStep& step, const PlanContext& context);
  void preplan(const RaggedPrefixedAttentionStep& step, const PlanContext& context);
  // Drops a pending preplan; without one, nothing happens.
  void clear_preplan() noexcept;
  [[nodiscard]] bool preplan_pending() const noexcept;

  // Runs the plan of `label` (for pairs, cross_label(q, kv)). Throws not_planned naming the label
  // and the planned ones.
  void run(std::string_view label, const TensorView& q, const TensorView& k, const TensorView& v,
           const TensorView& out, const LseView& lse = {}, Stream stream = {});
  // Prefixed resources: prefix K/V in tensors of their own.
  void run_two_sources(std::string_view label, const TensorView& q, const TensorView& prefix_k,
                       const TensorView& prefix_v, const TensorView& k, const TensorView& v,
                       const TensorView& out, const LseView& lse = {}, Stream stream = {});

  // Declared segments of the label's last plan, zero-span ones included. Throws not_planned.
  [[nodiscard]] std::int64_t num_segments(std::string_view label) const;
  [[nodiscard]] std::vector<std::string> planned_labels() const;
  // The plan that `label` runs under this step. Throws not_planned.
  [[nodiscard]] const Plan& plan_of(std::string_view label) const;
  // WrapperBase::check for every label of the step.
  void check(Stream stream = {});
  [[nodiscard]] RaggedAttentionCallable callable(std::string label);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ragged
