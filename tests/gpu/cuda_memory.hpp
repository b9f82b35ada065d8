#pragma once

#include "support/memory.hpp"

namespace ragged::test {

// A GPU's memory: every allocation ends where mapped memory ends (up to its alignment), with
// unmapped addresses at both ends, and holds NaN patterns at first. Blocks of a few MiB are kept
// and given out again. With RAGGED_TEST_CUDA_MALLOC set, for compute-sanitizer, each is a
// cudaMalloc of exactly its size instead, and holds nothing.
Memory& cuda_memory(int index);

}  // namespace ragged::test
