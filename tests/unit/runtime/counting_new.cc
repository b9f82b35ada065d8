#include "counting_new.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t count = 0;

#if RAGGED_TEST_COUNTS_ALLOCATIONS
void* counted(std::size_t bytes, std::size_t alignment) {
  ++count;
  if (bytes == 0) bytes = 1;
  void* data = alignment <= alignof(std::max_align_t)
                   ? std::malloc(bytes)
                   : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
#endif

}  // namespace

std::size_t ragged::test::allocations() noexcept { return count; }

#if RAGGED_TEST_COUNTS_ALLOCATIONS
void* operator new(std::size_t bytes) { return counted(bytes, 1); }
void* operator new[](std::size_t bytes) { return counted(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
#endif
