#pragma once

// Specs, steps and contexts of the manager, from their C structs.

#include <variant>
#include <vector>

#include <ragged/c/manager.h>
#include <ragged/manager.hpp>

#include "c_api_values.hpp"

namespace ragged::capi {

AnyRaggedSpec to_spec(const ragged_spec* spec);

using AnyStep = std::variant<AttentionStep, RaggedCrossAttentionStep, RaggedPrefixedAttentionStep>;
// Fields that the step's type does not have are refused where they are not 0.
AnyStep to_step(const ragged_step* step);

// Holds the inherited segments that the context points at.
class StepContext {
 public:
  // A null `context`: eager, slot 0, nothing to inherit.
  explicit StepContext(const ragged_plan_context* context);
  StepContext(const StepContext&) = delete;
  StepContext& operator=(const StepContext&) = delete;
  [[nodiscard]] const PlanContext& context() const noexcept { return context_; }

 private:
  std::vector<Segment> inherited_;
  PlanContext context_;
};

}  // namespace ragged::capi
