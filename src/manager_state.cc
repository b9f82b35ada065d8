#include "manager_state.hpp"

namespace ragged::detail {
namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& message) { throw Error(code, message); }
[[noreturn]] void refuse(const std::string& message) {
  refuse(ErrorCode::invalid_argument, message);
}

AttentionKind kind_of(const AnyRaggedSpec& spec) {
  if (std::holds_alternative<RaggedCrossAttentionSpec>(spec)) return AttentionKind::cross;
  if (std::holds_alternative<RaggedBlockCausalAttentionSpec>(spec)) {
    return AttentionKind::block_causal;
  }
  if (std::holds_alternative<RaggedPrefixedAttentionSpec>(spec)) return AttentionKind::prefixed;
  return AttentionKind::self;
}

std::string_view step_type_of(AttentionKind kind) noexcept {
  switch (kind) {
    case AttentionKind::self:
    case AttentionKind::block_causal:
      return "AttentionStep";
    case AttentionKind::cross:
      return "RaggedCrossAttentionStep";
    case AttentionKind::prefixed:
      return "RaggedPrefixedAttentionStep";
  }
  return "unknown";
}

WrapperOptions options_of(const Resource& resource, const EngineOptions& engine) {
  WrapperOptions options;
  options.num_qo_heads = resource.config.num_qo_heads;
  options.num_kv_heads = resource.config.num_kv_heads;
  options.head_dim = resource.config.head_dim;
  options.device = engine.device;
  options.sm_scale = resource.config.sm_scale;
  options.q_data_type = *resource.config.dtype;
  options.backend = resource.config.backend;
  options.block_size = resource.block_size;
  options.threads = engine.threads;
  options.executor = engine.executor;
  return options;
}

std::string text_of(const std::optional<SlotLease>& lease) {
  if (!lease) return "no lease";
  const BucketKey& bucket = lease->bucket;
  return "slot " + std::to_string(lease->slot) + " of bucket (graph_walk '" + bucket.graph_walk +
         "', bs " + std::to_string(bucket.bs) + ", num_tokens " +
         std::to_string(bucket.num_tokens) + ", extra '" + bucket.extra + "')";
}

}  // namespace

Resource Resource::make(const AnyRaggedSpec& spec, const EngineOptions& engine) {
  Resource resource;
  resource.kind = kind_of(spec);
  std::visit(
      [&](const auto& any) {
        resource.key = any.resource_key;
        resource.config = any.config;
      },
      spec);
  if (const auto* block_causal = std::get_if<RaggedBlockCausalAttentionSpec>(&spec)) {
    resource.block_size = block_causal->block_size;
    if (resource.block_size < 1) {
      refuse("resource '" + resource.key + "': block_size must be at least 1; got " +
             std::to_string(resource.block_size));
    }
  }
  resource.config.validate();
  if (resource.config.backend == RaggedAttnBackend::FLASHINFER &&
      resource.config.flashinfer_backend == "fa3") {
    throw Error(ErrorCode::unsupported,
                "resource '" + resource.key +
                    "': flashinfer_backend fa3 is not built: of FlashInfer's kernels this library "
                    "has fa2");
  }
  // One shard is an engine without a group: the config stays as it was declared.
  if (engine.num_shards != 1) resource.config.shard(engine.num_shards);
  if (!resource.config.dtype) resource.config.dtype = engine.dtype;
  if (!resource.config.dtype) {
    refuse("resource '" + resource.key +
           "' has no activation dtype; set dtype in its RaggedAttentionConfig or in EngineOptions");
  }
  return resource;
}

ManagerState::ManagerState(const AnyRaggedSpec& spec, const EngineOptions& engine)
    : resource_(Resource::make(spec, engine)),
      num_slots_(engine.num_slots),
      runners_(resource_.kind, resource_.config, options_of(resource_, engine)) {
  if (num_slots_ < 1) {
    refuse("num_slots must be at least 1; got " + std::to_string(num_slots_));
  }
}

std::span<const Segment> ManagerState::segments_of(const SegmentList& own,
                                                   const PlanContext& context) const {
  if (own) return *own;
  if (!context.inherited_segments.empty()) return context.inherited_segments;
  refuse("the step of resource '" + resource_.key +
         "' gives no segments and inherits none; set segments or PlanContext::inherited_segments");
}

void ManagerState::check_step_type(bool accepted, std::string_view came) const {
  if (accepted) return;
  refuse("resource '" + resource_.key + "' is " + std::string(to_string(resource_.kind)) +
         " attention, declared with " + std::string(step_type_of(resource_.kind)) + "; got " +
         std::string(came));
}

StepLayout ManagerState::layout_of(const AttentionStep& step, const PlanContext& context) const {
  const bool block_causal = resource_.kind == AttentionKind::block_causal;
  check_step_type(block_causal || resource_.kind == AttentionKind::self, "AttentionStep");
  if (block_causal && step.causal) {
    refuse("resource '" + resource_.key +
           "' is block_causal attention: causal must be false, the block structure is the whole "
           "mask; got true");
  }
  return layout_of_labels(segments_of(step.segments, context), step.causal);
}

StepLayout ManagerState::layout_of(const RaggedCrossAttentionStep& step,
                                   const PlanContext& context) const {
  check_step_type(resource_.kind == AttentionKind::cross, "RaggedCrossAttentionStep");
  return layout_of_cross(segments_of(step.segments, context), step.pairs);
}

StepLayout ManagerState::layout_of(const RaggedPrefixedAttentionStep& step,
                                   const PlanContext& context) const {
  check_step_type(resource_.kind == AttentionKind::prefixed, "RaggedPrefixedAttentionStep");
  return layout_of_prefixed(segments_of(step.segments, context), step.pairs, step.causal,
                            step.two_sources);
}

void ManagerState::check_slot(std::string_view name, int slot) const {
  if (slot >= 0 && slot < num_slots_) return;
  refuse(std::string(name) + " must be in 0.." + std::to_string(num_slots_ - 1) +
         " (num_slots = " + std::to_string(num_slots_) + "); got " + std::to_string(slot));
}

void ManagerState::install(StepLayout layout, const PlanContext& context) {
  if (!pending_) {
    current_ = plan_all(std::move(layout), context);
    return;
  }
  std::string difference;
  if (context.lease != pending_->lease) {
    difference = "it has " + text_of(context.lease) + ", the preplan " + text_of(pending_->lease);
  } else {
    difference = first_difference(layout, pending_->layout);
  }
  if (!difference.empty()) {
    refuse(ErrorCode::invalid_state,
           "resource '" + resource_.key +
               "' has a pending preplan, and this step is not the one that was preplanned: " +
               difference + "; clear_preplan drops it");
  }
  current_ = std::move(*pending_);
  pending_.reset();
}

void ManagerState::check_preplan(const PlanContext& context) const {
  if (!context.lease) {
    refuse(ErrorCode::invalid_state,
           "preplan of resource '" + resource_.key + "' needs a lease; none was given");
  }
  if (pending_) {
    refuse(ErrorCode::invalid_state, "resource '" + resource_.key + "' has a pending preplan for " +
                                         text_of(pending_->lease) + "; got a second one for " +
                                         text_of(context.lease));
  }
  // The wrappers of a captured slot hold one step each.
  if (current_.lease == context.lease) {
    refuse(ErrorCode::invalid_state, "preplan of resource '" + resource_.key +
                                         "' needs a slot that the current step does not run on; "
                                         "both have " +
                                         text_of(context.lease));
  }
}

PlannedStep ManagerState::plan_all(StepLayout layout, const PlanContext& context) {
  if (context.lease) {
    check_slot("lease.slot", context.lease->slot);
  } else {
    check_slot("slot", context.slot);
  }
  PlannedStep step;
  step.lease = context.lease;
  step.runners.reserve(layout.plans.size());
  for (const LabelPlan& plan : layout.plans) {
    PlanRunner& runner = context.lease ? runners_.captured(plan.label, *context.lease)
                                       : runners_.eager(plan.label, context.slot);
    PlanInput input;
    input.q = LayoutSource(plan.q_argument, plan.q);
    if (!plan.kv.empty()) input.kv = LayoutSource(plan.kv_argument, plan.kv);
    if (!plan.prefix.empty()) input.prefix = LayoutSource(plan.kv_argument, plan.prefix);
    input.causal = layout.causal;
    input.two_sources = layout.two_sources;
    input.stream = context.stream;
    runner.plan(input);
    step.runners.push_back(&runner);
  }
  step.layout = std::move(layout);
  return step;
}

PlanRunner& ManagerState::runner_of(std::string_view label) const {
  std::string planned;
  for (std::size_t i = 0; i < current_.runners.size(); ++i) {
    if (current_.layout.plans[i].label == label) return *current_.runners[i];
  }
  for (const LabelPlan& plan : current_.layout.plans) {
    planned += (planned.empty() ? "'" : ", '") + plan.label + "'";
  }
  refuse(ErrorCode::not_planned,
         "resource '" + resource_.key + "' has no plan of label '" + std::string(label) +
             "' in this step; planned: " + (planned.empty() ? "none" : planned));
}

}  // namespace ragged::detail
