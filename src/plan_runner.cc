#include "plan_runner.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "backends/contract.hpp"
#include "memory_errors.hpp"
#include "wrapper_options.hpp"

namespace ragged::detail {
namespace {

bool same_spans(const SegmentSpans& spans, const Layout& layout) noexcept {
  const std::int64_t count = layout.num_segments();
  if (spans.starts.count != count || spans.lengths.count != count) return false;
  for (const IndexView* view : {&spans.starts, &spans.lengths}) {
    if (view->device.kind != DeviceKind::cpu) return false;
    if (count > 0 && view->data == nullptr) return false;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (spans.starts.at(i) != layout.begin(i)) return false;
    if (spans.lengths.at(i) != layout.length(i)) return false;
  }
  return true;
}

void reserve_layouts(StepLayouts& layouts, AttentionKind kind, std::int64_t max_num_segments) {
  layouts.q.reserve(max_num_segments);
  if (kind == AttentionKind::cross || kind == AttentionKind::prefixed) {
    layouts.kv.reserve(max_num_segments);
  }
  if (kind == AttentionKind::prefixed) layouts.prefix.reserve(max_num_segments);
}

std::size_t form_index(bool causal, bool two_sources) noexcept {
  return (causal ? 1U : 0U) + (two_sources ? 2U : 0U);
}

// True if planning `input` would give the layouts and flags of this plan.
bool same_step(const Plan& plan, const PlanInput& input) noexcept {
  return plan.problem.causal == input.causal && plan.problem.two_sources == input.two_sources &&
         plan.layouts.kv_is_q != input.kv.given() && input.q.same_as(plan.layouts.q) &&
         input.kv.same_as(plan.layouts.kv) && input.prefix.same_as(plan.layouts.prefix);
}

// What refusals call the keys of a step.
std::string_view keys_name(const PlanInput& input) noexcept {
  if (input.two_sources) return "prefix and fresh keys together";
  return input.kv.given() ? input.kv.argument() : input.q.argument();
}

std::string_view form_name(bool two_sources) { return two_sources ? "two sources" : "one source"; }

}  // namespace

bool LayoutSource::same_as(const Layout& layout) const noexcept {
  switch (form_) {
    case Form::none:
      return layout.num_segments() == 0;
    case Form::offsets:
      return layout.same_offsets(offsets_);
    case Form::spans:
      return same_spans(spans_, layout);
  }
  return false;
}

void LayoutSource::assign_to(Layout& layout) const {
  switch (form_) {
    case Form::none:
      layout.assign_offsets({0}, argument_);
      break;
    case Form::offsets:
      layout.assign_offsets(offsets_, argument_);
      break;
    case Form::spans:
      layout.assign_spans(spans_, argument_);
      break;
  }
}

PlanRunner::PlanRunner(AttentionKind kind, const WrapperOptions& options)
    : options_(options),
      problem_(problem_of(kind, options)),
      facts_(facts_of(options)),
      ceilings_(ceilings_of(kind, options)),
      scratch_(options.workspace) {
  with_memory_errors([&] { prime(); });
}

void PlanRunner::prime() {
  if (ceilings_) reserve_layouts(incoming_, problem_.kind, ceilings_->max_num_segments);
  const bool may_be_causal =
      problem_.kind == AttentionKind::self || problem_.kind == AttentionKind::prefixed;
  const bool may_have_two_sources = problem_.kind == AttentionKind::prefixed;
  std::optional<Error> refusal;
  bool served = false;
  for (const bool two_sources : {false, true}) {
    for (const bool causal : {false, true}) {
      if ((causal && !may_be_causal) || (two_sources && !may_have_two_sources)) continue;
      try {
        prime_form(causal, two_sources);
        served = true;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;
        if (!refusal) refusal = error;
      }
    }
  }
  if (!served) throw Error(*refusal);
  if (ceilings_) scratch_.require(workspace_bytes_);
}

void PlanRunner::prime_form(bool causal, bool two_sources) {
  Problem problem = problem_;
  problem.causal = causal;
  problem.two_sources = two_sources;
  incoming_.kv_is_q = true;
  Plan& plan = held_[ceilings_ ? form_index(causal, two_sources) : 0].plan;
  if (ceilings_) reserve_layouts(plan.layouts, problem.kind, ceilings_->max_num_segments);
  make_plan(plan, problem, incoming_, facts_, built_backends(), options_.backend, ceilings_);
  if (ceilings_) workspace_bytes_ = std::max(workspace_bytes_, plan.workspace_bytes);
}

void PlanRunner::assign_layouts(const PlanInput& input) {
  input.q.assign_to(incoming_.q);
  input.kv.assign_to(incoming_.kv);
  input.prefix.assign_to(incoming_.prefix);
  incoming_.kv_is_q = !input.kv.given();
}

void PlanRunner::plan(const PlanInput& input) {
  const std::size_t form = form_index(input.causal, input.two_sources);
  const std::size_t last = ceilings_ ? form : current_;
  if (held_[last].planned && same_step(held_[last].plan, input)) {
    current_ = last;
    return;
  }
  with_memory_errors([&] {
    assign_layouts(input);
    check_ceilings(options_, incoming_, {.q = input.q.argument(), .keys = keys_name(input)});
    Problem problem = problem_;
    problem.causal = input.causal;
    problem.two_sources = input.two_sources;
    const std::size_t next = ceilings_ ? form : 1 - current_;
    Plan& plan = held_[next].plan;
    make_plan(plan, problem, incoming_, facts_, built_backends(), options_.backend, ceilings_);
    if (!ceilings_) {
      scratch_.require(plan.workspace_bytes);
      workspace_bytes_ = plan.workspace_bytes;
    }
    held_[next].planned = true;
    current_ = next;
  });
}

void PlanRunner::run(const RunInput& input) const {
  const Plan& plan = current_plan();
  if (plan.problem.two_sources != input.two_sources) {
    throw Error(ErrorCode::invalid_state,
                "the plan is for keys in " + std::string(form_name(plan.problem.two_sources)) +
                    "; the run brings them in " + std::string(form_name(input.two_sources)));
  }
  RunArguments arguments;
  arguments.q = input.q;
  arguments.k = input.k;
  arguments.v = input.v;
  arguments.out = input.out;
  arguments.lse = input.lse;
  arguments.prefix_k = input.prefix_k;
  arguments.prefix_v = input.prefix_v;
  arguments.workspace = scratch_.workspace();
  arguments.executor = options_.executor;
  arguments.stream = input.stream;
  ragged::run(plan, arguments);
}

const Plan& PlanRunner::current_plan() const {
  if (!planned()) throw Error(ErrorCode::not_planned, "nothing is planned yet; call plan first");
  return held_[current_].plan;
}

}  // namespace ragged::detail
