#pragma once

// One resource behind the Python class `_ext.Manager`; ragged_attention/manager.py is its face.

#include <mutex>
#include <string>
#include <string_view>

#include <ragged/manager.hpp>

#include "tensors.hpp"

namespace ragged::python {

class Manager {
 public:
  Manager(const AnyRaggedSpec& spec, const EngineOptions& engine)
      : engine_(engine), manager_(spec, engine) {}

  // `step` has segments (or None), and of causal, pairs and two_sources what its type has;
  // `context` has lease (or None), slot and inherited_segments. Attributes alone count, so that an
  // engine's own types will do. Returns the rows of each label, by label: what every run of it
  // writes.
  nb::dict plan(nb::handle step, nb::handle context, nb::handle stream);
  void preplan(nb::handle step, nb::handle context, nb::handle stream);
  void clear_preplan();
  void run(std::string_view label, nb::handle q, nb::handle k, nb::handle v, nb::handle out,
           nb::handle lse, nb::handle stream);
  void run_two_sources(std::string_view label, nb::handle q, nb::handle prefix_k,
                       nb::handle prefix_v, nb::handle k, nb::handle v, nb::handle out,
                       nb::handle lse, nb::handle stream);

  [[nodiscard]] RaggedAttentionManager& manager() noexcept { return manager_; }

 private:
  EngineOptions engine_;
  RaggedAttentionManager manager_;
  std::mutex mutex_;  // as Wrapper's
};

void bind_manager(nb::module_& module);

}  // namespace ragged::python
