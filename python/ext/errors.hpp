#pragma once

// How refusals become Python exceptions: each is of the kind that Python users expect (ValueError,
// TypeError, ...), and all are ragged_attention.Error.

#include <stdexcept>
#include <string>

namespace ragged::python {

// An argument of a Python type that does not fit: ragged_attention.WrongTypeError, a TypeError.
class WrongType : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Makes ragged::Error and WrongType leave the module as the classes of ragged_attention.errors.
void register_errors();

}  // namespace ragged::python
