#pragma once

// One worker's scratch for the tile kernel, laid out over a block that the caller owns.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/matrix.hpp"

namespace ragged::cpu::amx {

using matrix::kPanelRows;

struct Scratch {
  float* scores[2] = {};               // [kPanelRows][chunk keys], of two panels in turn
  Bf16* weights[2] = {};               // as scores
  Bf16* keys = nullptr;                // one packed chunk
  Bf16* values = nullptr;              // one packed chunk
  Bf16* queries = nullptr;             // [rows][head_dim rounded up to 32]
  float* outputs = nullptr;            // [rows][head_dim rounded up to 16]
  __m512* sums = nullptr;              // [rows]
  float* references = nullptr;         // [rows]
  std::int64_t* ends = nullptr;        // [rows]: keys of the segment that each row sees
  std::int32_t* chunk_ends = nullptr;  // [rows]: keys of the current chunk
  bool* done = nullptr;                // [rows]: written
  // Where a value is not finite and not all rows see it:
  Bf16* visible_values = nullptr;  // as values
  float* before = nullptr;         // [kPanelRows][head_dim rounded up to 16]
  float* after = nullptr;          // as before
  std::size_t bytes = 0;

  Scratch(void* base, int head_dim, std::int64_t rows) noexcept {
    const auto up = [](std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; };
    const std::int64_t padded = up(rows, kPanelRows);
    const std::int64_t score_dims = up(head_dim, 32);
    const std::int64_t output_dims = up(head_dim, 16);
    const std::int64_t chunk = matrix::chunk_keys(head_dim);
    const auto take = [&](auto*& part, std::int64_t count) {
      using T = std::remove_reference_t<decltype(*part)>;
      if (base != nullptr) part = reinterpret_cast<T*>(static_cast<char*>(base) + bytes);
      bytes += static_cast<std::size_t>(up(count * std::int64_t{sizeof(T)}, 64));
    };
    take(scores[0], kPanelRows * chunk);
    take(scores[1], kPanelRows * chunk);
    take(weights[0], kPanelRows * chunk);
    take(weights[1], kPanelRows * chunk);
    take(keys, chunk * score_dims);
    take(values, chunk * output_dims);
    take(queries, padded * score_dims);
    take(outputs, padded * output_dims);
    take(sums, padded);
    take(references, padded);
    take(ends, padded);
    take(chunk_ends, padded);
    take(done, padded);
    take(visible_values, chunk * output_dims);
    take(before, kPanelRows * output_dims);
    take(after, kPanelRows * output_dims);
  }
};

}  // namespace ragged::cpu::amx
