#pragma once

// What stands behind every wrapper: one plan, its static buffers and its scratch.

#include <array>
#include <memory>
#include <string_view>

#include <ragged/wrappers.hpp>

#include "plan_runner_device.hpp"
#include "scratch.hpp"

namespace ragged::detail {

// One layout as a caller gave it, under the name that refusals use. Never owns.
class LayoutSource {
 public:
  LayoutSource() = default;
  LayoutSource(std::string_view argument, const IndexView& cu_seqlens)
      : argument_(argument), offsets_(cu_seqlens), form_(Form::offsets) {}
  LayoutSource(std::string_view argument, const SegmentSpans& spans)
      : argument_(argument), spans_(spans), form_(Form::spans) {}

  [[nodiscard]] std::string_view argument() const noexcept { return argument_; }
  [[nodiscard]] bool given() const noexcept { return form_ != Form::none; }
  // True if `layout` is this source's layout; a source that was not given is an empty layout.
  [[nodiscard]] bool same_as(const Layout& layout) const noexcept;
  // True for offsets on a device, which are read there.
  [[nodiscard]] bool on_device() const noexcept {
    return form_ == Form::offsets && offsets_.device.kind != DeviceKind::cpu;
  }
  [[nodiscard]] const IndexView& offsets() const noexcept { return offsets_; }
  // Checks and copies the values; those on `device`, a GPU, are left there, for at most
  // `max_tokens` rows. Throws what Layout's assigns throw.
  void assign_to(Layout& layout, Device device, std::int64_t max_tokens) const;

 private:
  enum class Form : std::uint8_t { none, offsets, spans };
  std::string_view argument_;
  IndexView offsets_;
  SegmentSpans spans_;
  Form form_ = Form::none;
};

// What one plan call brings. A key layout that is not given is the query's.
struct PlanInput {
  LayoutSource q = {};
  LayoutSource kv = {};
  LayoutSource prefix = {};  // two sources only
  bool causal = false;
  bool two_sources = false;
  Stream stream = {};  // that the step is planned on
};

// The tensors of one run. The prefix ones belong to the form with two sources alone.
struct RunInput {
  TensorView q, k, v, out;
  LseView lse;
  TensorView prefix_k, prefix_v;
  Stream stream;
  bool two_sources = false;
};

class PlanRunner {
 public:
  // Throws invalid_argument naming the option, or unsupported with each backend's reason where no
  // backend serves any form of the problem.
  PlanRunner(AttentionKind kind, const WrapperOptions& options);

  // On a throw the plan before it still works.
  void plan(const PlanInput& input);
  void run(const RunInput& input);
  // Waits for the stream, and throws what a device has found wrong with offsets.
  void check(Stream stream);

  [[nodiscard]] const Plan& current_plan() const;
  [[nodiscard]] bool planned() const noexcept { return held_[current_].planned; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  [[nodiscard]] const WrapperOptions& options() const noexcept { return options_; }

 private:
  // A plan and whether it holds a step: at construction it holds a choice alone.
  struct Held {
    Plan plan;
    bool planned = false;
  };

  void assign_layouts(const PlanInput& input);
  // On a GPU: scratch and table of the plan that is held at `slot`, on the input's stream.
  void stage(std::size_t slot, const PlanInput& input);
  // Makes the choice for empty layouts in each form that the kind has: refuses a problem that no
  // backend serves, and in capacity mode learns the scratch size and reserves all storage.
  void prime();
  void prime_form(bool causal, bool two_sources);

  // Whether the planned device's memory can be had.
  [[nodiscard]] bool holds_memory() const noexcept {
    return facts_.device.kind == DeviceKind::cpu || device_ != nullptr;
  }

  WrapperOptions options_;
  Problem problem_;
  DeviceFacts facts_;
  std::optional<Ceilings> ceilings_;  // capacity mode
  StepLayouts incoming_;              // checked, not yet planned
  // Capacity mode: one for each form (causal, two sources), planned in place, so that its buffers
  // keep their addresses. Eager mode: two in turn, so that a refusal leaves the current one alone.
  std::array<Held, 4> held_;
  std::size_t current_ = 0;
  std::unique_ptr<DeviceSteps> device_;  // on a GPU that is present
  Scratch scratch_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace ragged::detail
