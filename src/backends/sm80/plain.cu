// The fp32 kernels: four padded head dims.

#include "backends/sm80/plain.cuh"

#include "backends/sm80/kernel_set.hpp"

namespace ragged::sm80 {
namespace {

template <int kDim>
KernelSet plain_set() {
  KernelSet set;
  set.kernels[static_cast<int>(Variant::fp32)] = {
      reinterpret_cast<const void*>(&plain_kernel<kDim>), kPlainThreads, plain_smem_bytes(kDim)};
  return set;
}

}  // namespace

KernelSet kernels_fp32(int dim) {
  switch (dim) {
    case 32:
      return plain_set<32>();
    case 64:
      return plain_set<64>();
    case 128:
      return plain_set<128>();
    default:
      return plain_set<256>();
  }
}

}  // namespace ragged::sm80
