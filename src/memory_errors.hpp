#pragma once

// ragged::Error is the only exception that leaves the library.

#include <new>
#include <stdexcept>
#include <utility>

#include <ragged/error.hpp>

namespace ragged::detail {

// Calls `action`; a failed allocation leaves as out_of_memory.
template <typename Action>
decltype(auto) with_memory_errors(Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, "the host has no memory for this plan");
  } catch (const std::length_error&) {
    throw Error(ErrorCode::out_of_memory, "this plan is larger than any storage can be");
  }
}

}  // namespace ragged::detail
