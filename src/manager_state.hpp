#pragma once

// What a manager holds: the resource's spec, its wrappers, the current step and a pending preplan.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ragged/manager.hpp>

#include "manager_runners.hpp"
#include "manager_step.hpp"

namespace ragged::detail {

// A step whose every label is planned.
struct PlannedStep {
  StepLayout layout;
  std::vector<PlanRunner*> runners;  // one for each of layout.plans
  std::optional<SlotLease> lease;    // none: eager
};

// A spec of any type as plain values; the config sharded and its dtype resolved.
struct Resource {
  std::string key;
  AttentionKind kind = AttentionKind::self;
  RaggedAttentionConfig config;
  std::int64_t block_size = 0;  // tokens; block_causal only

  // Throws what RaggedAttentionManager's constructor throws.
  static Resource make(const AnyRaggedSpec& spec, const EngineOptions& engine);
};

class ManagerState {
 public:
  ManagerState(const AnyRaggedSpec& spec, const EngineOptions& engine);

  [[nodiscard]] const Resource& resource() const noexcept { return resource_; }
  [[nodiscard]] bool preplan_pending() const noexcept { return pending_.has_value(); }
  [[nodiscard]] const PlannedStep& current() const noexcept { return current_; }

  // The layout that a step declares. Throws invalid_argument for a step of another kind's type.
  [[nodiscard]] StepLayout layout_of(const AttentionStep& step, const PlanContext& context) const;
  [[nodiscard]] StepLayout layout_of(const RaggedCrossAttentionStep& step,
                                     const PlanContext& context) const;
  [[nodiscard]] StepLayout layout_of(const RaggedPrefixedAttentionStep& step,
                                     const PlanContext& context) const;

  template <typename Step>
  void plan(const Step& step, const PlanContext& context) {
    current_ = {};  // no label survives into a step that does not declare it
    install(layout_of(step, context), context);
  }
  template <typename Step>
  void preplan(const Step& step, const PlanContext& context) {
    check_preplan(context);
    pending_ = plan_all(layout_of(step, context), context);
  }
  void clear_preplan() noexcept { pending_.reset(); }

  // The runner of a planned label. Throws not_planned naming the label and the planned ones.
  [[nodiscard]] PlanRunner& runner_of(std::string_view label) const;

 private:
  void install(StepLayout layout, const PlanContext& context);
  void check_preplan(const PlanContext& context) const;
  [[nodiscard]] PlannedStep plan_all(StepLayout layout, const PlanContext& context);
  [[nodiscard]] std::span<const Segment> segments_of(const SegmentList& own,
                                                     const PlanContext& context) const;
  void check_step_type(bool accepted, std::string_view came) const;
  void check_slot(std::string_view name, int slot) const;

  Resource resource_;
  int num_slots_ = 0;
  LabelRunners runners_;
  PlannedStep current_;
  std::optional<PlannedStep> pending_;
};

}  // namespace ragged::detail
