#pragma once

#include <cstddef>

namespace ragged::test {

// Allocations of this thread since the program began. Counts every form of operator new.
std::size_t allocations() noexcept;

// Allocations that `action` makes on this thread.
template <typename Action>
std::size_t allocations_of(Action&& action) {
  const std::size_t before = allocations();
  action();
  return allocations() - before;
}

}  // namespace ragged::test
