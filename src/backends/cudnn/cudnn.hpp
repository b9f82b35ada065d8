#pragma once

// cuDNN's attention on packed sequences: compute capability 9.0, where libcudnn.so.9 is found at
// run time.

#include "backends/contract.hpp"

namespace ragged {

const Backend& cudnn_backend();

}  // namespace ragged
