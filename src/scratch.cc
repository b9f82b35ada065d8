#include "scratch.hpp"

#include <cstdint>
#include <new>
#include <string>

#include "huge_pages.hpp"

namespace ragged::detail {

void Scratch::AlignedDelete::operator()(std::byte* data) const noexcept {
  ::operator delete[](data, std::align_val_t{kScratchAlignment});
}

Scratch::Scratch(const Workspace& callers) : owned_(callers.data == nullptr) {
  if (owned_) return;
  const auto address = reinterpret_cast<std::uintptr_t>(callers.data);
  if (address % kScratchAlignment != 0) {
    throw Error(ErrorCode::invalid_argument,
                "workspace.data must be aligned to " + std::to_string(kScratchAlignment) +
                    " bytes; it lies " + std::to_string(address % kScratchAlignment) +
                    " bytes past such an address");
  }
  workspace_ = callers;
}

void Scratch::require(std::size_t bytes) {
  if (bytes <= workspace_.bytes) return;
  if (!owned_) {
    throw Error(ErrorCode::invalid_argument,
                "workspace.bytes = " + std::to_string(workspace_.bytes) +
                    " is less than the plan needs, " + std::to_string(bytes));
  }
  own_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kScratchAlignment})));
  // Packed keys and sums fill all of it.
  ask_for_huge_pages(own_.get(), bytes);
  workspace_ = {.data = own_.get(), .bytes = bytes};
}

}  // namespace ragged::detail
