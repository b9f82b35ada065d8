// Facts of the GPU for a report, and its clock: from NVIDIA's management library where the driver
// has brought it. It is loaded, not linked, and only read from.

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>

#include "bench/gpu.hpp"
#include "bench/gpu_check.hpp"

namespace ragged::bench {
namespace {

using NvmlDevice = void*;
constexpr unsigned kSmClock = 1;      // NVML_CLOCK_SM
constexpr unsigned kMemoryClock = 2;  // NVML_CLOCK_MEM

// The few functions that are used; all null where the library is not there.
struct Nvml {
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_pci_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;
  bool ready = false;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [library](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    ready = find(init, "nvmlInit_v2") && find(driver_version, "nvmlSystemGetDriverVersion") &&
            find(by_pci_bus_id, "nvmlDeviceGetHandleByPciBusId_v2") &&
            find(clock, "nvmlDeviceGetClockInfo") && find(max_clock, "nvmlDeviceGetMaxClockInfo") &&
            find(power_limit, "nvmlDeviceGetEnforcedPowerLimit") && init() == 0;
  }

  [[nodiscard]] NvmlDevice device(int index) const {
    std::array<char, 32> id = {};
    NvmlDevice found = nullptr;
    if (!ready || cudaDeviceGetPCIBusId(id.data(), id.size(), index) != cudaSuccess) return nullptr;
    return by_pci_bus_id(id.data(), &found) == 0 ? found : nullptr;
  }
};

const Nvml& nvml() {
  static const Nvml library;
  return library;
}

}  // namespace

GpuEnvironment gpu_environment(int index) {
  GpuEnvironment environment;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "the properties of the GPU");
  environment.name = static_cast<const char*>(properties.name);
  environment.sm_count = properties.multiProcessorCount;
  environment.l2_bytes = properties.l2CacheSize;
  environment.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  int version = 0;
  check(cudaRuntimeGetVersion(&version), "CUDA's version");
  environment.runtime = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  const NvmlDevice device = nvml().device(index);
  if (device == nullptr) return environment;
  std::array<char, 96> driver = {};
  if (nvml().driver_version(driver.data(), driver.size()) == 0) environment.driver = driver.data();
  unsigned value = 0;
  if (nvml().max_clock(device, kSmClock, &value) == 0) {
    environment.max_sm_mhz = static_cast<int>(value);
  }
  if (nvml().max_clock(device, kMemoryClock, &value) == 0) {
    environment.max_memory_mhz = static_cast<int>(value);
  }
  if (nvml().power_limit(device, &value) == 0) {
    environment.power_limit_watts = static_cast<int>(value / 1000);
  }
  return environment;
}

int sm_clock_mhz(int index) {
  const NvmlDevice device = nvml().device(index);
  unsigned value = 0;
  if (device == nullptr || nvml().clock(device, kSmClock, &value) != 0) return 0;
  return static_cast<int>(value);
}

}  // namespace ragged::bench
