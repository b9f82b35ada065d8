// ragged_attention._ext: the library as Python sees it. The package's own modules give it names,
// signatures and texts; nothing here is for users.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ragged/ragged.hpp>

#include "backends/contract.hpp"
#include "errors.hpp"
#include "manager.hpp"
#include "picture.hpp"
#include "wrapper.hpp"

namespace {

// In order of preference.
std::vector<std::string> built_backend_names() {
  std::vector<std::string> names;
  for (const ragged::Backend* backend : ragged::built_backends()) {
    names.emplace_back(to_string(backend->id()));
  }
  return names;
}

}  // namespace

NB_MODULE(_ext, module) {
  namespace nb = nanobind;
  using namespace ragged::python;
  register_errors();
  bind_wrapper(module);
  bind_manager(module);
  module.attr("__version__") = RAGGED_VERSION;
  module.def("padded_head_dim", &ragged::padded_head_dim, nb::arg("head_dim"));
  module.def("built_backends", &built_backend_names);
  module.def("device_facts", [] { return ragged::DeviceFacts::host().to_string(); });
  module.def("command", &run_command, nb::arg("words"), nb::call_guard<nb::gil_scoped_release>());
}
