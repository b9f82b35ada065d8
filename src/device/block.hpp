#pragma once

// Device memory that one wrapper owns, and the order of its work on several streams. Plain C++ over
// the device room.

#include <cstddef>
#include <utility>

#include "device/room.hpp"

namespace ragged::device {

// Zeroed device memory that grows. Aligned to 256 bytes.
class Block {
 public:
  Block() = default;
  explicit Block(Device device) : device_(device) {}
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Block();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  // Makes sure of at least `bytes`, and may wait for the device. For construction.
  void make(std::size_t bytes);
  // Makes sure of at least `bytes`, in the order of the stream and without waiting for the device:
  // what was in the block is gone. Precondition: what used the block before is ordered before the
  // stream. Throws invalid_state where the stream is being captured: a graph would own the memory.
  void grow(std::size_t bytes, Stream stream);

 private:
  void swap(Block& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Device device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Puts the work of one owner in one order, whatever streams it is given to, without ever blocking
// the host. A stream that was used must live until the owner is used on another one, or is gone.
class StreamOrder {
 public:
  StreamOrder() = default;
  explicit StreamOrder(Device device) : device_(device) {}
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;
  ~StreamOrder();

  // What `stream` does from here on comes after all that the owner has begun before. A stream that
  // is being captured waits for nothing: whoever replays the graph orders the replays.
  void enter(Stream stream);

 private:
  Device device_;
  Stream last_;
  bool used_ = false;
  Event event_;
};

}  // namespace ragged::device
