#include "errors.hpp"

#include <nanobind/nanobind.h>

#include <ragged/error.hpp>

namespace ragged::python {
namespace {

namespace nb = nanobind;

// Sets ragged_attention.errors.from_code(code, message) as the error; what goes wrong on the way is
// the error instead.
void set_error(const char* code, const char* message) {
  try {
    const nb::object error =
        nb::module_::import_("ragged_attention.errors").attr("from_code")(code, message);
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

void translate(const std::exception_ptr& exception, void* /*payload*/) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    set_error(to_string(error.code()), error.what());
  } catch (const WrongType& error) {
    set_error("wrong_type", error.what());
  }
}

}  // namespace

void register_errors() { nb::register_exception_translator(translate); }

}  // namespace ragged::python
