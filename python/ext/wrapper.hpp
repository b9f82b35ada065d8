#pragma once

// The four wrappers behind one Python class, `_ext.Wrapper`; ragged_attention/wrappers.py gives
// each kind its own signature.

#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include <ragged/wrappers.hpp>

#include "tensors.hpp"

namespace ragged::python {

class Wrapper {
 public:
  // `workspace`: a tensor of bytes that the wrapper computes in, or None for its own.
  Wrapper(AttentionKind kind, WrapperOptions options, nb::object workspace);

  // Each plan returns the rows that a run writes without leaving any out: the extent of the query
  // layout, or -1 where it has gaps or lies on a device.
  std::int64_t plan(nb::handle q, nb::handle kv, bool causal, nb::handle stream);
  std::int64_t plan_spans(nb::handle q, nb::handle kv, bool causal, nb::handle stream);
  std::int64_t plan_two_sources(nb::handle q, nb::handle prefix, nb::handle fresh, bool causal,
                                nb::handle stream);
  void run(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::handle lse,
           nb::handle stream);
  void run_two_sources(nb::handle q, nb::handle prefix_k, nb::handle prefix_v, nb::handle k,
                       nb::handle v, nb::handle out, nb::handle lse, nb::handle stream);

  void check(nb::handle stream);

  [[nodiscard]] const WrapperBase& base() const;

 private:
  template <typename Action>
  std::int64_t planned(Action&& action);

  AttentionKind kind_;
  std::variant<RaggedPrefillWrapper, RaggedCrossPrefillWrapper, RaggedBlockCausalWrapper,
               PrefixedPrefillWrapper>
      of_kind_;
  nb::object workspace_;  // kept alive
  // Runs leave the interpreter's lock; a second thread waits here instead.
  std::mutex mutex_;
};

// Rows of `plan` that every run writes; -1 where that is not one range from the first row on.
std::int64_t covered_rows(const Plan& plan);

void bind_wrapper(nb::module_& module);

}  // namespace ragged::python
