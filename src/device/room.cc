#include "device/room.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "device/current_device.cuh"

namespace ragged::device {
namespace {

cudaStream_t of(Stream stream) noexcept { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t of(Event event) noexcept { return static_cast<cudaEvent_t>(event.handle); }

int attribute(cudaDeviceAttr name, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, index), "a CUDA device attribute");
  return value;
}

DeviceFacts named(int index) {
  DeviceFacts facts;
  facts.device = {DeviceKind::cuda, index};
  facts.name = to_string(facts.device);
  return facts;
}

DeviceFacts read_facts(int index) {
  DeviceFacts facts = named(index);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "the properties of a CUDA device");
  facts.model = static_cast<const char*>(properties.name);
  facts.sm_arch = 10 * properties.major + properties.minor;
  facts.sm_count = properties.multiProcessorCount;
  facts.smem_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  facts.l1d_bytes = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, index);
  facts.l2_bytes = properties.l2CacheSize;
  return facts;
}

class CudaRoom final : public Room {
 public:
  CudaRoom() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      count = 0;
      absence_ = status == cudaErrorInsufficientDriver
                     ? "no CUDA driver, or one that is too old"
                     : std::string("no CUDA device: ") + cudaGetErrorString(status);
    }
    try {
      for (int i = 0; i < count; ++i) {
        facts_.push_back(read_facts(i));
        pools_.push_back(attribute(cudaDevAttrMemoryPoolsSupported, i) != 0);
      }
    } catch (const Error& error) {
      facts_.clear();
      absence_ = error.what();
    }
  }

  [[nodiscard]] int num_devices() const noexcept override {
    return static_cast<int>(facts_.size());
  }

  [[nodiscard]] DeviceFacts facts(int index) const override {
    if (index >= 0 && index < num_devices()) return facts_[static_cast<std::size_t>(index)];
    DeviceFacts absent = named(index);
    absent.present = false;
    absent.absence = !absence_.empty()
                         ? absence_
                         : "this machine has " + std::to_string(num_devices()) + " CUDA devices";
    return absent;
  }

  [[nodiscard]] void* allocate(Device device, std::size_t bytes) const override {
    const CurrentDevice current(device.index);
    const OutsideCaptures outside;
    void* data = nullptr;
    check(cudaMalloc(&data, bytes), no_memory(device, bytes).c_str());
    // Not the default stream, which would wait for others and is refused while one is captured.
    cudaError_t status = cudaMemsetAsync(data, 0, bytes, cudaStreamPerThread);
    if (status == cudaSuccess) status = cudaStreamSynchronize(cudaStreamPerThread);
    if (status != cudaSuccess) static_cast<void>(cudaFree(data));
    check(status, "zeroing device memory");
    return data;
  }

  void free(Device device, void* data) const noexcept override {
    quietly(device, [&] {
      // Memory of a pool is given back at once, whoever still works on it.
      static_cast<void>(cudaDeviceSynchronize());
      static_cast<void>(cudaFree(data));
    });
  }

  [[nodiscard]] void* allocate(Device device, std::size_t bytes, Stream stream) const override {
    if (!has_pools(device)) return allocate(device, bytes);
    const CurrentDevice current(device.index);
    void* data = nullptr;
    check(cudaMallocAsync(&data, bytes, of(stream)), no_memory(device, bytes).c_str());
    return data;
  }

  void free(Device device, void* data, Stream stream) const noexcept override {
    if (!has_pools(device)) return free(device, data);
    quietly(device, [&] { static_cast<void>(cudaFreeAsync(data, of(stream))); });
  }

  [[nodiscard]] void* allocate_shared(Device device, std::size_t bytes) const override {
    const CurrentDevice current(device.index);
    const OutsideCaptures outside;
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
          "pinned host memory");
    std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{0});
    return data;
  }

  void free_shared(Device device, void* data) const noexcept override {
    quietly(device, [&] { static_cast<void>(cudaFreeHost(data)); });
  }

  [[nodiscard]] bool holds(Device device, const void* data) const override {
    const CurrentDevice current(device.index);
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    return attributes.type == cudaMemoryTypeDevice && attributes.device == device.index;
  }

  void copy(Device device, void* to, const void* from, std::size_t bytes,
            Stream stream) const override {
    const CurrentDevice current(device.index);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)), "a copy");
    check(cudaStreamSynchronize(of(stream)), "a copy");
  }

  void fill(Device device, void* data, int byte, std::size_t bytes, Stream stream) const override {
    const CurrentDevice current(device.index);
    check(cudaMemsetAsync(data, byte, bytes, of(stream)), "filling device memory");
  }

  void synchronize(Device device, Stream stream) const override {
    const CurrentDevice current(device.index);
    check(cudaStreamSynchronize(of(stream)), "waiting for a stream");
  }

  [[nodiscard]] bool is_capturing(Device device, Stream stream) const override {
    const CurrentDevice current(device.index);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(of(stream), &status);
    // The legacy default stream, beside a capture from a stream that waits for it: it can be given
    // nothing, as if it were captured itself.
    if (error == cudaErrorStreamCaptureImplicit) {
      static_cast<void>(cudaGetLastError());
      return true;
    }
    check(error, "the state of a stream");
    return status != cudaStreamCaptureStatusNone;
  }

  [[nodiscard]] Event make_event(Device device, bool timed) const override {
    const CurrentDevice current(device.index);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
          "making an event");
    return {event};
  }

  void free_event(Device device, Event event) const noexcept override {
    quietly(device, [&] { static_cast<void>(cudaEventDestroy(of(event))); });
  }

  void record(Device device, Event event, Stream stream) const override {
    const CurrentDevice current(device.index);
    check(cudaEventRecord(of(event), of(stream)), "recording an event");
  }

  void wait(Device device, Stream stream, Event event) const override {
    const CurrentDevice current(device.index);
    check(cudaStreamWaitEvent(of(stream), of(event), 0), "making a stream wait");
  }

  [[nodiscard]] double elapsed_us(Device device, Event begin, Event end) const override {
    const CurrentDevice current(device.index);
    check(cudaEventSynchronize(of(end)), "waiting for an event");
    float ms = 0.0F;
    check(cudaEventElapsedTime(&ms, of(begin), of(end)), "the time between two events");
    return 1e3 * static_cast<double>(ms);
  }

 private:
  [[nodiscard]] bool has_pools(Device device) const noexcept {
    return pools_[static_cast<std::size_t>(device.index)];
  }

  static std::string no_memory(Device device, std::size_t bytes) {
    return std::to_string(bytes) + " bytes on " + to_string(device);
  }

  // For destructors: what cannot be freed, because the driver has gone or an earlier kernel broke
  // the context, is freed with the process.
  template <typename Action>
  static void quietly(Device device, Action&& action) noexcept {
    int before = 0;
    if (cudaGetDevice(&before) != cudaSuccess) return;
    const OutsideCaptures outside;
    if (before != device.index) static_cast<void>(cudaSetDevice(device.index));
    action();
    if (before != device.index) static_cast<void>(cudaSetDevice(before));
    static_cast<void>(cudaGetLastError());
  }

  std::string absence_;
  std::vector<DeviceFacts> facts_;
  std::vector<bool> pools_;
};

}  // namespace

const Room* room() noexcept {
  // Never destroyed: wrappers with static lifetime free their memory through it.
  static const Room* const the_room = [] {
    try {
      return new CudaRoom;
    } catch (...) {
      return static_cast<CudaRoom*>(nullptr);
    }
  }();
  return the_room;
}

}  // namespace ragged::device
