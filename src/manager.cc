#include <ragged/manager.hpp>

#include "manager_state.hpp"
#include "memory_errors.hpp"

namespace ragged {

struct RaggedAttentionManager::Impl {
  detail::ManagerState state;
};

namespace {

// What stands behind a manager. One that was moved from can only be destroyed or assigned to.
template <typename Impl>
detail::ManagerState& live(const std::unique_ptr<Impl>& impl) {
  if (!impl) throw Error(ErrorCode::invalid_state, "this manager was moved from");
  return impl->state;
}

}  // namespace

void RaggedAttentionCallable::operator()(const TensorView& q, const TensorView& k,
                                         const TensorView& v, const TensorView& out,
                                         const LseView& lse, Stream stream) const {
  manager_->run(label_, q, k, v, out, lse, stream);
}

RaggedAttentionManager::RaggedAttentionManager(const AnyRaggedSpec& spec,
                                               const EngineOptions& engine)
    : impl_(detail::with_memory_errors(
          [&] { return std::unique_ptr<Impl>(new Impl{detail::ManagerState(spec, engine)}); })) {}
RaggedAttentionManager::~RaggedAttentionManager() = default;
RaggedAttentionManager::RaggedAttentionManager(RaggedAttentionManager&&) noexcept = default;
RaggedAttentionManager& RaggedAttentionManager::operator=(RaggedAttentionManager&&) noexcept =
    default;

const std::string& RaggedAttentionManager::resource_key() const {
  return live(impl_).resource().key;
}

AttentionKind RaggedAttentionManager::kind() const { return live(impl_).resource().kind; }

const RaggedAttentionConfig& RaggedAttentionManager::config() const {
  return live(impl_).resource().config;
}

void RaggedAttentionManager::plan(const AttentionStep& step, const PlanContext& context) {
  detail::with_memory_errors([&] { live(impl_).plan(step, context); });
}

void RaggedAttentionManager::plan(const RaggedCrossAttentionStep& step,
                                  const PlanContext& context) {
  detail::with_memory_errors([&] { live(impl_).plan(step, context); });
}

void RaggedAttentionManager::plan(const RaggedPrefixedAttentionStep& step,
                                  const PlanContext& context) {
  detail::with_memory_errors([&] { live(impl_).plan(step, context); });
}

void RaggedAttentionManager::preplan(const AttentionStep& step, const PlanContext& context) {
  detail::with_memory_errors([&] { live(impl_).preplan(step, context); });
}

void RaggedAttentionManager::preplan(const RaggedCrossAttentionStep& step,
                                     const PlanContext& context) {
  detail::with_memory_errors([&] { live(impl_).preplan(step, context); });
}

void RaggedAttentionManager::preplan(const RaggedPrefixedAttentionStep& step,
                                     const PlanContext& context) {
  detail::with_memory_errors([&] { live(impl_).preplan(step, context); });
}

void RaggedAttentionManager::clear_preplan() noexcept {
  if (impl_) impl_->state.clear_preplan();
}

bool RaggedAttentionManager::preplan_pending() const noexcept {
  return impl_ && impl_->state.preplan_pending();
}

void RaggedAttentionManager::run(std::string_view label, const TensorView& q, const TensorView& k,
                                 const TensorView& v, const TensorView& out, const LseView& lse,
                                 Stream stream) {
  detail::RunInput input;
  input.q = q;
  input.k = k;
  input.v = v;
  input.out = out;
  input.lse = lse;
  input.stream = stream;
  live(impl_).runner_of(label).run(input);
}

void RaggedAttentionManager::run_two_sources(std::string_view label, const TensorView& q,
                                             const TensorView& prefix_k, const TensorView& prefix_v,
                                             const TensorView& k, const TensorView& v,
                                             const TensorView& out, const LseView& lse,
                                             Stream stream) {
  detail::RunInput input;
  input.q = q;
  input.k = k;
  input.v = v;
  input.out = out;
  input.lse = lse;
  input.prefix_k = prefix_k;
  input.prefix_v = prefix_v;
  input.stream = stream;
  input.two_sources = true;
  live(impl_).runner_of(label).run(input);
}

std::int64_t RaggedAttentionManager::num_segments(std::string_view label) const {
  return plan_of(label).layouts.q.num_segments();
}

std::vector<std::string> RaggedAttentionManager::planned_labels() const {
  std::vector<std::string> labels;
  for (const detail::LabelPlan& plan : live(impl_).current().layout.plans) {
    labels.push_back(plan.label);
  }
  return labels;
}

const Plan& RaggedAttentionManager::plan_of(std::string_view label) const {
  return live(impl_).runner_of(label).current_plan();
}

void RaggedAttentionManager::check(Stream stream) {
  for (detail::PlanRunner* runner : live(impl_).current().runners) runner->check(stream);
}

RaggedAttentionCallable RaggedAttentionManager::callable(std::string label) {
  return {*this, std::move(label)};
}

}  // namespace ragged
