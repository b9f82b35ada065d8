#include "scratch.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdint>
#include <new>
#include <string>

namespace ragged::detail {
namespace {

// Packed keys and sums span hundreds of small pages, and compete with the tensors for entries of
// the address cache. A request alone: the system may decline it.
void prefer_huge_pages([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (address + bytes) / kHugePage * kHugePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace

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
  prefer_huge_pages(own_.get(), bytes);
  workspace_ = {.data = own_.get(), .bytes = bytes};
}

}  // namespace ragged::detail
