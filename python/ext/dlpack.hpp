#pragma once

// DLPack's table of C functions, which an array library puts on its array type as the capsule
// `__dlpack_c_exchange_api__` (DLPack 1.3): a tensor in tens of nanoseconds, and the stream that
// the library works on. Declared here from the standard's text; nanobind has the tensor itself.

#include <cstdint>

#include <nanobind/ndarray.h>

namespace ragged::python::dlpack {

using Tensor = nanobind::dlpack::dltensor;

struct Version {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader* older = nullptr;
};

// Functions return 0, or -1 with a Python exception set. None of them synchronizes a device.
struct ExchangeApi {
  ExchangeHeader header;
  void* allocate = nullptr;
  void* managed_from_object = nullptr;
  void* managed_to_object = nullptr;
  // Fills `out` with what `object` owns: valid while the object lives. May be null.
  int (*tensor_from_object)(void* object, Tensor* out) = nullptr;
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out) = nullptr;
};

inline constexpr const char* kExchangeAttribute = "__dlpack_c_exchange_api__";
inline constexpr const char* kExchangeCapsule = "dlpack_exchange_api";

// Values of DLDeviceType that this library knows.
inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::int32_t kCudaHost = 3;      // pinned host memory
inline constexpr std::int32_t kCudaManaged = 13;  // unified memory

}  // namespace ragged::python::dlpack
