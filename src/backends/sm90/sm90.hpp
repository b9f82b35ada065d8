#pragma once

// The backend for NVIDIA Hopper GPUs: compute capability 9.0.

#include "backends/contract.hpp"

namespace ragged {

const Backend& sm90_backend();

}  // namespace ragged
