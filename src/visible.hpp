#pragma once

// The one place where a mask is defined: every query row sees one contiguous interval of its key
// segment. Shared by the reference, the planner's cost, the CPU kernel and the GPU kernels.

#include <cstdint>

#if defined(__CUDACC__)
#define RAGGED_HOST_DEVICE __host__ __device__
#else
#define RAGGED_HOST_DEVICE
#endif

namespace ragged {

// block_size > 0: block-causal (q and keys are one span). Otherwise causal or full.
struct Mask {
  bool causal = false;
  std::int64_t block_size = 0;
};

// First key that query row `row` sees, within its key segment (prefix keys come first).
RAGGED_HOST_DEVICE constexpr std::int64_t visible_begin(const Mask& /*mask*/, std::int64_t /*row*/,
                                                        std::int64_t /*q_len*/,
                                                        std::int64_t /*kv_len*/) {
  return 0;
}

// One past the last key that query row `row` of [0, q_len) sees; in [0, kv_len]. Never falls as the
// row grows. Length: a signed type that holds both lengths; 32 bits divide in a fraction of the
// time on a GPU.
template <class Length>
RAGGED_HOST_DEVICE constexpr Length visible_end_of(const Mask& mask, Length row, Length q_len,
                                                   Length kv_len) {
  Length end = kv_len;
  if (mask.block_size > 0) {
    // A block as large as the span holds all of it; of a smaller one, an end that would pass the
    // span is cut before it is computed, as it need not fit a Length.
    if (mask.block_size < kv_len) {
      const auto block = static_cast<Length>(mask.block_size);
      const Length begin = row / block * block;
      end = begin > kv_len - block ? kv_len : begin + block;
    }
  } else if (mask.causal) {
    end = row - q_len + kv_len + 1;
  }
  return end < 0 ? 0 : (end > kv_len ? kv_len : end);
}
RAGGED_HOST_DEVICE constexpr std::int64_t visible_end(const Mask& mask, std::int64_t row,
                                                      std::int64_t q_len, std::int64_t kv_len) {
  return visible_end_of<std::int64_t>(mask, row, q_len, kv_len);
}

// Rows at the start of a segment that see no key.
RAGGED_HOST_DEVICE constexpr std::int64_t hidden_rows_of(const Mask& mask, std::int64_t q_len,
                                                         std::int64_t kv_len) {
  if (kv_len == 0) return q_len;
  return mask.causal && mask.block_size == 0 && q_len > kv_len ? q_len - kv_len : 0;
}

// a / b, for a >= 0 and b >= 1. Lengths nearly always fit 32 bits, whose division takes half the
// time on a CPU and a fraction of it on a GPU.
RAGGED_HOST_DEVICE constexpr std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 31) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

// Sum of visible_end - visible_begin over rows [row_begin, row_end), in closed form.
RAGGED_HOST_DEVICE constexpr double visible_scores(const Mask& mask, std::int64_t row_begin,
                                                   std::int64_t row_end, std::int64_t q_len,
                                                   std::int64_t kv_len) {
  if (row_begin >= row_end) return 0.0;
  if (mask.block_size > 0 && mask.block_size < kv_len) {
    // prefix(n): rows [0, n) of full blocks plus the rest of one, ends cut at the span.
    const std::int64_t b = mask.block_size;
    double total = 0.0;
    for (int side = 0; side < 2; ++side) {
      const std::int64_t n = side == 0 ? row_begin : row_end;
      const std::int64_t full = divide(n, b);  // blocks 0..full-1 whole
      const std::int64_t rest = n - full * b;
      const double blocks = static_cast<double>(full);
      // A whole block ends inside the span or at it: its end is never cut.
      const double sum =
          static_cast<double>(b) * static_cast<double>(b) * blocks * (blocks + 1.0) / 2.0;
      const std::int64_t end = (full + 1) * b > kv_len ? kv_len : (full + 1) * b;
      const double part = sum + static_cast<double>(rest) * static_cast<double>(end);
      total += side == 0 ? -part : part;
    }
    return total;
  }
  if (mask.causal) {
    // Rows below `first` see nothing; the rest an arithmetic series.
    const std::int64_t first = q_len - kv_len > row_begin ? q_len - kv_len : row_begin;
    if (first >= row_end) return 0.0;
    const double lo = static_cast<double>(first + kv_len - q_len + 1);
    const double hi = static_cast<double>(row_end - 1 + kv_len - q_len + 1);
    return (lo + hi) * static_cast<double>(row_end - first) / 2.0;
  }
  return static_cast<double>(row_end - row_begin) * static_cast<double>(kv_len);
}

}  // namespace ragged
