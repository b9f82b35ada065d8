#pragma once

// Fewer, larger pages under a block: a large tensor spans hundreds of small ones, which compete for
// entries of the address cache.

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdint>

namespace ragged::detail {

// Asks the system for huge pages under those that lie whole in the block. A request alone: the
// system may decline it, and nothing but time changes.
inline void ask_for_huge_pages([[maybe_unused]] std::byte* data,
                               [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__)
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t past = reinterpret_cast<std::uintptr_t>(data) % kHugePage;
  const std::size_t first = past == 0 ? 0 : kHugePage - past;  // bytes before the first whole one
  if (bytes < first + kHugePage) return;
  madvise(data + first, (bytes - first) / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
}

}  // namespace ragged::detail
