#pragma once

// Where the facts of this machine's GPUs come from: the core knows no device.

#include <ragged/plan.hpp>

namespace ragged {

// Facts of GPU `index`, present or not.
using GpuFacts = DeviceFacts (*)(int index);
// Set once, by the registry of a build that has CUDA.
void set_gpu_facts(GpuFacts source) noexcept;

}  // namespace ragged
