#pragma once

// The default backend: packed attention on any CPU, by one source for every instruction set.

#include "backends/contract.hpp"

namespace ragged {

// Lives as long as the program.
const Backend& cpu_backend() noexcept;

}  // namespace ragged
