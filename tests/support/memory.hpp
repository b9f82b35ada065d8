#pragma once

// Where the tensors of a test live. A device's tests bring their own Memory; nothing else of a test
// touches tensor memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include <ragged/layout.hpp>

namespace ragged::test {

// Owns one allocation.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void()> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Buffer() {
    if (release_) release_();
  }

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::function<void()> release_;
};

class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] virtual Device device() const = 0;
  // `bytes` that end where readable memory ends, as near as `alignment` (a power of two) allows, so
  // that reading past a tensor is caught. Pages that are never written cost nothing where the
  // device can do so.
  virtual Buffer allocate(std::size_t bytes, std::size_t alignment) = 0;
  // Writes the `element_bytes` low bytes of `bits` `count` times.
  virtual void fill(void* to, std::uint32_t bits, std::size_t element_bytes, std::size_t count) = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  // After all work that was started on the memory.
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
};

// The CPU's memory: pages that cost nothing until written, with an unreadable page at both ends.
Memory& host_memory();

}  // namespace ragged::test
