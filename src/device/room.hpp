#pragma once

// The device room: memory, streams and facts of this machine's GPUs, as plain calls. What stands to
// its right uses GPUs through it and includes no CUDA.

#include <cstddef>
#include <memory>

#include <ragged/run.hpp>

namespace ragged::device {

// An event of a device's streams; opaque.
struct Event {
  void* handle = nullptr;
};

// Every call works on the device it names, whatever the current one is, and leaves that as it was.
// Throws Error(device) with the runtime's own words, Error(out_of_memory) where memory is short.
class Room {
 public:
  virtual ~Room() = default;

  // GPUs that can be used; 0 without a driver.
  [[nodiscard]] virtual int num_devices() const noexcept = 0;
  // Facts of GPU `index`; of one that is not there `absence` says why. Read once.
  [[nodiscard]] virtual DeviceFacts facts(int index) const = 0;

  // Aligned to 256 bytes and zeroed. Freeing waits for the device.
  [[nodiscard]] virtual void* allocate(Device device, std::size_t bytes) const = 0;
  virtual void free(Device device, void* data) const noexcept = 0;
  // The same in the order of a stream, not zeroed: neither call waits for the device, where it has
  // memory pools.
  [[nodiscard]] virtual void* allocate(Device device, std::size_t bytes, Stream stream) const = 0;
  virtual void free(Device device, void* data, Stream stream) const noexcept = 0;
  // Zeroed host memory that the device writes to at the same address.
  [[nodiscard]] virtual void* allocate_shared(Device device, std::size_t bytes) const = 0;
  virtual void free_shared(Device device, void* data) const noexcept = 0;

  // Whether the device can use the memory at `data` as its own.
  [[nodiscard]] virtual bool holds(Device device, const void* data) const = 0;
  // Copies between any two of host and device memory, in the order of the stream; returns when
  // done.
  virtual void copy(Device device, void* to, const void* from, std::size_t bytes,
                    Stream stream) const = 0;
  virtual void fill(Device device, void* data, int byte, std::size_t bytes,
                    Stream stream) const = 0;

  // Waits for the stream.
  virtual void synchronize(Device device, Stream stream) const = 0;
  // True while a graph is captured from the stream.
  [[nodiscard]] virtual bool is_capturing(Device device, Stream stream) const = 0;
  [[nodiscard]] virtual Event make_event(Device device, bool timed) const = 0;
  virtual void free_event(Device device, Event event) const noexcept = 0;
  // Marks the work that the stream holds so far; what the stream does after wait() comes after it.
  virtual void record(Device device, Event event, Stream stream) const = 0;
  virtual void wait(Device device, Stream stream, Event event) const = 0;
  // Microseconds between two timed events; waits for the second.
  [[nodiscard]] virtual double elapsed_us(Device device, Event begin, Event end) const = 0;
};

// The room of this machine; null in a build without CUDA. Lives as long as the program.
const Room* room() noexcept;

}  // namespace ragged::device
