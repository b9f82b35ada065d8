#pragma once

#include <stdexcept>
#include <string>

namespace ragged {

// What went wrong, by the kind of remedy. The C interface returns these values as integers.
enum class ErrorCode : int {
  ok = 0,
  invalid_argument =
      1,              // an argument is malformed; the text names it, what was expected, what came
  out_of_range = 2,   // above a declared ceiling; the text holds the count and the ceiling
  unsupported = 3,    // no backend serves it; the text holds each backend's reason
  not_planned = 4,    // run without a plan, or on a label that this step did not declare
  invalid_state = 5,  // a call out of order: preplan without a lease, a second pending preplan
  device = 6,         // the device or its driver refused
  out_of_memory = 7,  // an allocation failed
  internal = 8,       // a bug of this library
};

// The name of a code as users see it, for example "invalid_argument".
const char* to_string(ErrorCode code) noexcept;

// The only exception that this library throws. what() names the argument, what was expected and
// what came: "cu_seqlens[3] = 40 is less than cu_seqlens[2] = 57".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace ragged
