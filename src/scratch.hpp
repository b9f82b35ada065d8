#pragma once

// Scratch memory of a wrapper: its own, or the caller's after a check.

#include <cstddef>
#include <memory>

#include <ragged/run.hpp>

namespace ragged::detail {

inline constexpr std::size_t kScratchAlignment =
    64;  // bytes; a cache line, and AVX-512's widest load

class Scratch {
 public:
  // `callers` with null data: the scratch is owned and grows. Throws invalid_argument naming a
  // misaligned pointer.
  explicit Scratch(const Workspace& callers = {});

  // Makes sure of at least `bytes`. Throws invalid_argument with both sizes where the caller's is
  // smaller, std::bad_alloc where there is no memory; on a throw nothing has changed.
  void require(std::size_t bytes);
  [[nodiscard]] Workspace workspace() const noexcept { return workspace_; }

 private:
  struct AlignedDelete {
    void operator()(std::byte* data) const noexcept;
  };
  std::unique_ptr<std::byte[], AlignedDelete> own_;
  Workspace workspace_;
  bool owned_ = true;
};

}  // namespace ragged::detail
