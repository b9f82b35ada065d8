#pragma once

#include <cstddef>

// A thread sanitizer brings its own operator new, so that nothing can be counted under it.
#if defined(__SANITIZE_THREAD__)
#define RAGGED_TEST_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RAGGED_TEST_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef RAGGED_TEST_COUNTS_ALLOCATIONS
#define RAGGED_TEST_COUNTS_ALLOCATIONS 1
#endif

namespace ragged::test {

inline constexpr bool kCountsAllocations = RAGGED_TEST_COUNTS_ALLOCATIONS != 0;

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
