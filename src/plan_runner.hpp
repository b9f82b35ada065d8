#pragma once

// What stands behind every wrapper: one plan, its static buffers and its scratch.

#include <array>
#include <string_view>

#include <ragged/wrappers.hpp>

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
  // Checks and copies the values. Throws what Layout's assigns throw.
  void assign_to(Layout& layout) const;

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
  void run(const RunInput& input) const;

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
  // Makes the choice for empty layouts in each form that the kind has: refuses a problem that no
  // backend serves, and in capacity mode learns the scratch size and reserves all storage.
  void prime();
  void prime_form(bool causal, bool two_sources);

  WrapperOptions options_;
  Problem problem_;
  DeviceFacts facts_;
  std::optional<Ceilings> ceilings_;  // capacity mode
  StepLayouts incoming_;              // checked, not yet planned
  // Capacity mode: one for each form (causal, two sources), planned in place, so that its buffers
  // keep their addresses. Eager mode: two in turn, so that a refusal leaves the current one alone.
  std::array<Held, 4> held_;
  std::size_t current_ = 0;
  Scratch scratch_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace ragged::detail
