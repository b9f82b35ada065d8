#include <ragged/error.hpp>

namespace ragged {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::ok:
      return "ok";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::out_of_range:
      return "out_of_range";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_planned:
      return "not_planned";
    case ErrorCode::invalid_state:
      return "invalid_state";
    case ErrorCode::device:
      return "device";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace ragged
