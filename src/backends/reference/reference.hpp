#pragma once

#include "backends/contract.hpp"

namespace ragged {

// Softmax attention as written down, in double precision, on the calling thread. Serves every
// problem on the CPU; slow.
const Backend& reference_backend() noexcept;

}  // namespace ragged
