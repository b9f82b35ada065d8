#include "support/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace ragged::test {
namespace {

class HostMemory : public Memory {
 public:
  [[nodiscard]] Device device() const override { return {}; }

  Buffer allocate(std::size_t bytes, std::size_t alignment) override {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t body = (bytes + page) / page * page;
    const std::size_t total = body + 2 * page;
    void* base = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    auto* first = static_cast<std::byte*>(base);
    mprotect(first, page, PROT_NONE);
    mprotect(first + page + body, page, PROT_NONE);
    std::byte* data = first + page + ((body - bytes) & ~(alignment - 1));
    return {data, bytes, [base, total] { munmap(base, total); }};
  }

  void fill(void* to, std::uint32_t bits, std::size_t element_bytes, std::size_t count) override {
    auto* at = static_cast<std::byte*>(to);
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(at + i * element_bytes, &bits, element_bytes);
    }
  }

  void upload(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace ragged::test
