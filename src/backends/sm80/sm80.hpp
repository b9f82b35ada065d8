#pragma once

// The portable backend for NVIDIA GPUs: compute capability 8.0 and newer.

#include "backends/contract.hpp"

namespace ragged {

const Backend& sm80_backend();

}  // namespace ragged
