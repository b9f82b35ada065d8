#pragma once

// What facts of a CPU may hold, and where those of this machine's GPUs come from: the core knows no
// device.

#include <ragged/plan.hpp>

namespace ragged {

// Facts of GPU `index`, present or not.
using GpuFacts = DeviceFacts (*)(int index);
// Set once, by the registry of a build that has CUDA.
void set_gpu_facts(GpuFacts source) noexcept;

namespace detail {

// More than any machine has; a slip of the keyboard would ask for gigabytes of scratch.
inline constexpr int kMostThreads = 4096;

// Throws invalid_argument naming the fact of a CPU that no plan can be made on: its simd or its
// threads.
void check_cpu_facts(const DeviceFacts& facts);

}  // namespace detail
}  // namespace ragged
