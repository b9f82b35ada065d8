#include "plan_runner.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "backends/contract.hpp"
#include "device/room.hpp"
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

// A GPU of this machine. Facts of one that is only named make plans, and no memory.
bool uses_device(const DeviceFacts& facts) noexcept {
  return facts.device.kind != DeviceKind::cpu && facts.present && device::room() != nullptr;
}

// The rows that offsets on a device may have.
std::int64_t most_rows(const std::optional<std::int64_t>& ceiling) noexcept {
  return std::min(ceiling.value_or(kMostDeviceRows), kMostDeviceRows);
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

void LayoutSource::assign_to(Layout& layout, Device device, std::int64_t max_tokens) const {
  if (on_device() && device.kind != DeviceKind::cpu) {
    if (offsets_.device != device) {
      throw Error(ErrorCode::invalid_argument, std::string(argument_) + " is on " +
                                                   to_string(offsets_.device) +
                                                   "; the plan is for " + to_string(device));
    }
    return layout.assign_unread(offsets_, argument_, max_tokens);
  }
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
      device_(uses_device(facts_) ? std::make_unique<DeviceSteps>(facts_.device) : nullptr),
      scratch_(options.workspace, facts_.device) {
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
  if (ceilings_ && holds_memory()) scratch_.require(workspace_bytes_);
}

void PlanRunner::prime_form(bool causal, bool two_sources) {
  Problem problem = problem_;
  problem.causal = causal;
  problem.two_sources = two_sources;
  incoming_.kv_is_q = true;
  const std::size_t slot = ceilings_ ? form_index(causal, two_sources) : 0;
  Plan& plan = held_[slot].plan;
  if (ceilings_) reserve_layouts(plan.layouts, problem.kind, ceilings_->max_num_segments);
  make_plan(plan, problem, incoming_, facts_, built_backends(), options_.backend, ceilings_);
  if (device_) plan.backend->prepare(plan);
  if (!ceilings_) return;
  workspace_bytes_ = std::max(workspace_bytes_, plan.workspace_bytes);
  if (device_ && plan.table_bytes > 0) device_->make_table(slot, plan.table_bytes);
}

void PlanRunner::assign_layouts(const PlanInput& input) {
  const std::int64_t q = most_rows(options_.max_total_tokens);
  const std::int64_t keys =
      options_.max_total_kv_tokens ? most_rows(options_.max_total_kv_tokens) : q;
  input.q.assign_to(incoming_.q, facts_.device, q);
  input.kv.assign_to(incoming_.kv, facts_.device, keys);
  input.prefix.assign_to(incoming_.prefix, facts_.device, keys);
  incoming_.kv_is_q = !input.kv.given();
}

void PlanRunner::stage(std::size_t slot, const PlanInput& input) {
  const Plan& plan = held_[slot].plan;
  device_->enter(input.stream);
  if (!ceilings_) scratch_.require(plan.workspace_bytes, input.stream);
  StageArguments arguments;
  arguments.workspace = scratch_.workspace();
  arguments.stream = input.stream;
  if (input.q.on_device()) arguments.q = input.q.offsets();
  if (input.kv.on_device()) arguments.kv = input.kv.offsets();
  if (input.prefix.on_device()) arguments.prefix = input.prefix.offsets();
  OffsetNames names = {std::string(input.q.argument()), std::string(input.kv.argument()),
                       std::string(input.prefix.argument())};
  device_->stage(slot, plan, arguments, std::move(names));
}

void PlanRunner::plan(const PlanInput& input) {
  if (device_) device_->throw_new_faults(options_);
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
    if (device_) {
      // A plan that was made in place is gone if its table cannot be.
      held_[next].planned = false;
      stage(next, input);
    } else if (!ceilings_ && holds_memory()) {
      scratch_.require(plan.workspace_bytes);
    }
    if (!ceilings_) workspace_bytes_ = plan.workspace_bytes;
    held_[next].planned = true;
    current_ = next;
  });
}

void PlanRunner::check(Stream stream) {
  if (!device_) return;
  device_->synchronize(stream);
  device_->throw_new_faults(options_);
  device_->throw_fault_of(current_, options_);
}

void PlanRunner::run(const RunInput& input) {
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
  if (device_) {
    device_->throw_fault_of(current_, options_);
    device_->enter(input.stream);
    arguments.table = device_->table(current_);
  }
  ragged::run(plan, arguments);
}

const Plan& PlanRunner::current_plan() const {
  if (!planned()) throw Error(ErrorCode::not_planned, "nothing is planned yet; call plan first");
  return held_[current_].plan;
}

}  // namespace ragged::detail
