#include <cuda_runtime.h>

#include "backends/sm90/kernels.hpp"
#include "backends/sm90/launches.hpp"

namespace ragged::sm90 {

extern template KernelLaunch kernel_launch_of<32>(int variant, bool half);
extern template KernelLaunch kernel_launch_of<64>(int variant, bool half);
extern template KernelLaunch kernel_launch_of<72>(int variant, bool half);
extern template KernelLaunch kernel_launch_of<80>(int variant, bool half);
extern template KernelLaunch kernel_launch_of<96>(int variant, bool half);
extern template KernelLaunch kernel_launch_of<128>(int variant, bool half);
extern template KernelLaunch kernel_launch_of<256>(int variant, bool half);

namespace {

KernelLaunch find(const Tile& tile, DType dtype, int head_dim) {
  const int variant = tile.variant;
  const bool half = dtype == DType::fp16;
  switch (head_dim) {
    case 32:
      return kernel_launch_of<32>(variant, half);
    case 64:
      return kernel_launch_of<64>(variant, half);
    case 72:
      return kernel_launch_of<72>(variant, half);
    case 80:
      return kernel_launch_of<80>(variant, half);
    case 96:
      return kernel_launch_of<96>(variant, half);
    case 128:
      return kernel_launch_of<128>(variant, half);
    case 256:
      return kernel_launch_of<256>(variant, half);
    default:
      return {};
  }
}

}  // namespace

int prepare(const Rules& rules, const TileTable& table, DType dtype, int head_dim) {
  const KernelLaunch kernel = find(table.rules[rules.last].tile, dtype, head_dim);
  return kernel.prepare == nullptr ? cudaErrorInvalidValue : kernel.prepare();
}

int launch(const Rules& rules, const TileTable& table, DType dtype,
           const device::AttentionArgs& args, const LaunchShape& shape) {
  const KernelLaunch kernel = find(table.rules[rules.last].tile, dtype, args.head_dim);
  if (kernel.launch == nullptr) return cudaErrorInvalidValue;
  if (shape.max_units == 0) return cudaSuccess;
  return kernel.launch(args, rules, shape.max_units * args.head_groups, shape);
}

}  // namespace ragged::sm90
