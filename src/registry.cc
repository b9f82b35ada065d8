#include "backends/contract.hpp"
#include "device/room.hpp"
#include "device_facts.hpp"

#ifdef RAGGED_HAS_CPU
#include "backends/cpu/cpu.hpp"
#endif
#ifdef RAGGED_HAS_CUDNN
#include "backends/cudnn/cudnn.hpp"
#endif
#ifdef RAGGED_HAS_FLASHINFER
#include "backends/flashinfer/flashinfer.hpp"
#endif
#ifdef RAGGED_HAS_REFERENCE
#include "backends/reference/reference.hpp"
#endif
#ifdef RAGGED_HAS_SM80
#include "backends/sm80/sm80.hpp"
#endif
#ifdef RAGGED_HAS_SM90
#include "backends/sm90/sm90.hpp"
#endif

namespace ragged {
namespace {

// The core learns of this machine's GPUs from whoever links the registry.
const bool gpus_known = [] {
  if (device::room() != nullptr) {
    set_gpu_facts([](int index) { return device::room()->facts(index); });
  }
  return true;
}();

}  // namespace

// The fastest first; the reference serves what all others decline. cudnn stands behind our own GPU
// kernels, which are faster on every workload measured (docs/cudnn.md); flashinfer is for those who
// pin it (docs/flashinfer.md).
std::span<const Backend* const> built_backends() {
#if defined(RAGGED_HAS_CPU) || defined(RAGGED_HAS_REFERENCE) || defined(RAGGED_HAS_SM80) || \
    defined(RAGGED_HAS_SM90) || defined(RAGGED_HAS_CUDNN) || defined(RAGGED_HAS_FLASHINFER)
  static const Backend* const backends[] = {
#ifdef RAGGED_HAS_SM90
      &sm90_backend(),
#endif
#ifdef RAGGED_HAS_SM80
      &sm80_backend(),
#endif
#ifdef RAGGED_HAS_CUDNN
      &cudnn_backend(),
#endif
#ifdef RAGGED_HAS_FLASHINFER
      &flashinfer_backend(),
#endif
#ifdef RAGGED_HAS_CPU
      &cpu_backend(),
#endif
#ifdef RAGGED_HAS_REFERENCE
      &reference_backend(),
#endif
  };
  return backends;
#else
  return {};
#endif
}

}  // namespace ragged
