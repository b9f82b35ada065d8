#pragma once

// Declared steps and specs as Python objects, read by attribute: the dataclasses of
// ragged_attention.config, or an engine's own types of the same shape.

#include <variant>
#include <vector>

#include <ragged/manager.hpp>

#include "tensors.hpp"

namespace ragged::python {

using AnyStep = std::variant<AttentionStep, RaggedCrossAttentionStep, RaggedPrefixedAttentionStep>;

// Which type a step is follows from what it has: two_sources, else pairs, else neither.
AnyStep step_of(nb::handle step);

// A context with what its inherited segments point to.
struct HeldContext {
  std::vector<Segment> inherited;
  std::optional<SlotLease> lease;
  int slot = 0;

  explicit HeldContext(nb::handle context);  // None: eager, slot 0
  [[nodiscard]] PlanContext view(Stream stream) const { return {lease, slot, inherited, stream}; }
};

// A spec of kind `kind`; config.dtype is a name of the library's, or None.
AnyRaggedSpec spec_of(AttentionKind kind, nb::handle spec, nb::handle dtype);

}  // namespace ragged::python
