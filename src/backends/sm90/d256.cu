#include "backends/sm90/instance.cuh"

namespace ragged::sm90 {

template KernelLaunch kernel_launch_of<256>(int variant, bool half);

}  // namespace ragged::sm90
