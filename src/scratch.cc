#include "scratch.hpp"

#include <cstdint>
#include <new>
#include <string>

#include "huge_pages.hpp"

namespace ragged::detail {

void Scratch::AlignedDelete::operator()(std::byte* data) const noexcept {
  ::operator delete[](data, std::align_val_t{kScratchAlignment});
}

Scratch::Scratch(const Workspace& callers, Device device)
    : on_device_(device), device_(device), owned_(callers.data == nullptr) {
  if (owned_) return;
  const bool on_host = device.kind == DeviceKind::cpu;
  const std::size_t alignment = on_host ? kScratchAlignment : kDeviceAlignment;
  const auto address = reinterpret_cast<std::uintptr_t>(callers.data);
  if (address % alignment != 0) {
    throw Error(ErrorCode::invalid_argument, "workspace.data must be aligned to " +
                                                 std::to_string(alignment) + " bytes; it lies " +
                                                 std::to_string(address % alignment) +
                                                 " bytes past such an address");
  }
  const device::Room* const room = on_host ? nullptr : device::room();
  const bool is_here = room != nullptr && device.index < room->num_devices();
  if (is_here && !room->holds(device, callers.data)) {
    throw Error(ErrorCode::invalid_argument,
                "workspace.data must be memory of " + to_string(device));
  }
  workspace_ = callers;
}

void Scratch::require(std::size_t bytes, std::optional<Stream> stream) {
  if (bytes <= workspace_.bytes) return;
  if (!owned_) {
    throw Error(ErrorCode::invalid_argument,
                "workspace.bytes = " + std::to_string(workspace_.bytes) +
                    " is less than the plan needs, " + std::to_string(bytes));
  }
  if (device_.kind != DeviceKind::cpu) {
    if (stream) {
      on_device_.grow(bytes, *stream);
    } else {
      on_device_.make(bytes);
    }
    workspace_ = {.data = on_device_.data(), .bytes = on_device_.bytes()};
    return;
  }
  own_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kScratchAlignment})));
  // Packed keys and sums fill all of it.
  ask_for_huge_pages(own_.get(), bytes);
  workspace_ = {.data = own_.get(), .bytes = bytes};
}

}  // namespace ragged::detail
