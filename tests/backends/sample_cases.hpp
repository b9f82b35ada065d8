#pragma once

// A few small cases, at least one of every kind of attention, for tests that vary something other
// than the case.

#include <vector>

#include "backends/case.hpp"
#include "backends/target.hpp"

namespace ragged::test {

// Those that the target serves.
std::vector<Case> sample_cases(const Target& target);

// The dtypes to vary such things in: all that the target serves, but one where the target is slow
// or is one of several instruction sets of a backend.
std::vector<DType> sample_dtypes(const Target& target);

}  // namespace ragged::test
