#include "gpu/cuda_support.hpp"

namespace ragged::test {
namespace {

__global__ void spin_for(unsigned long long nanoseconds) {
  unsigned long long start = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

}  // namespace

void spin(const CudaStream& stream, double milliseconds) {
  spin_for<<<1, 1, 0, stream.get()>>>(static_cast<unsigned long long>(milliseconds * 1e6));
  check(cudaGetLastError(), "starting a kernel that spins");
}

}  // namespace ragged::test
