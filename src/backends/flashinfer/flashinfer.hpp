#pragma once

// The kernels of FlashInfer, compiled from the headers of its PyPI wheel.

#include "backends/contract.hpp"

namespace ragged {

const Backend& flashinfer_backend();

}  // namespace ragged
