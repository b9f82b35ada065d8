#pragma once

// Scratch memory of a wrapper: its own, or the caller's after a check.

#include <cstddef>
#include <memory>
#include <optional>

#include <ragged/run.hpp>

#include "device/block.hpp"

namespace ragged::detail {

// Bytes: a cache line, and AVX-512's widest load; on a GPU, as its memory comes.
inline constexpr std::size_t kScratchAlignment = 64;
inline constexpr std::size_t kDeviceAlignment = 256;

class Scratch {
 public:
  // `callers` with null data: the scratch is owned and grows. Throws invalid_argument naming a
  // misaligned pointer, or memory that is not the device's.
  explicit Scratch(const Workspace& callers = {}, Device device = {});

  // Makes sure of at least `bytes`, on a GPU zeroed and in the order of the stream, or for good
  // where none is given. Throws invalid_argument with both sizes where the caller's is smaller,
  // std::bad_alloc where there is no memory; on a throw nothing has changed.
  void require(std::size_t bytes, std::optional<Stream> stream = std::nullopt);
  [[nodiscard]] Workspace workspace() const noexcept { return workspace_; }

 private:
  struct AlignedDelete {
    void operator()(std::byte* data) const noexcept;
  };
  std::unique_ptr<std::byte[], AlignedDelete> own_;
  device::Block on_device_;
  Device device_;
  Workspace workspace_;
  bool owned_ = true;
};

}  // namespace ragged::detail
