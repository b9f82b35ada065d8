#pragma once

// A few small cases, at least one of every kind of attention, for tests that vary something other
// than the case.

#include <vector>

#include "backends/case.hpp"

namespace ragged::test {

std::vector<Case> sample_cases();

}  // namespace ragged::test
