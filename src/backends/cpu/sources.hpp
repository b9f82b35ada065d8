#pragma once

// Where the keys of one segment lie: one tensor, or a prefix and the fresh keys behind it, each
// read where it is.

#include <cstddef>
#include <cstdint>

namespace ragged::cpu {

// One row range of a tensor: row j at first + j * stride (elements).
template <class T>
struct RowRange {
  const T* first = nullptr;
  std::ptrdiff_t stride = 0;

  [[nodiscard]] const T* row(std::int64_t j) const noexcept { return first + j * stride; }
};

// A run of keys that lie in one source.
struct KeyPiece {
  int source = 0;
  std::int64_t begin = 0;  // within the source
  std::int64_t count = 0;
};

// The keys of one key head of one segment, prefix first.
template <class T>
struct KeySources {
  RowRange<T> k[2];
  RowRange<T> v[2];
  std::int64_t first_count = 0;  // keys in source 0; the rest lie in source 1

  [[nodiscard]] const T* key(std::int64_t j) const noexcept {
    return j < first_count ? k[0].row(j) : k[1].row(j - first_count);
  }
  [[nodiscard]] const T* value(std::int64_t j) const noexcept {
    return j < first_count ? v[0].row(j) : v[1].row(j - first_count);
  }
  // The longest run of keys from `begin` on, cut at `end`, that lies in one source.
  [[nodiscard]] KeyPiece piece(std::int64_t begin, std::int64_t end) const noexcept {
    if (begin >= first_count) return {1, begin - first_count, end - begin};
    return {0, begin, (end < first_count ? end : first_count) - begin};
  }
};

}  // namespace ragged::cpu
