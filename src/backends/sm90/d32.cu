#include "backends/sm90/instance.cuh"

namespace ragged::sm90 {

template KernelLaunch kernel_launch_of<32>(Kernel kernel, bool half);

}  // namespace ragged::sm90
