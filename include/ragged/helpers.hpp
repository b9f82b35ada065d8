#pragma once

// What users reach for around attention: padded to packed and back, and merging two partial
// results. Host memory only.

#include <span>

#include <ragged/layout.hpp>

namespace ragged {

// A caller's padded tensor of shape [batch, max_len, heads, head_dim]; strides in elements.
struct PaddedView {
  void* data = nullptr;
  DType dtype = DType::bf16;
  std::array<std::int64_t, 4> shape = {0, 0, 0, 0};
  std::array<std::int64_t, 4> strides = {0, 0, 0, 1};

  static PaddedView dense(const void* data, DType dtype, std::int64_t batch, std::int64_t max_len,
                          std::int64_t heads, std::int64_t head_dim);
};

// Copies rows [0, lengths[b]) of every batch entry end to end into `packed`
// ([sum(lengths), heads, head_dim]). Throws invalid_argument naming what does not fit.
void pack(const PaddedView& padded, std::span<const std::int64_t> lengths,
          const TensorView& packed);

// The inverse; rows of `padded` past a length are set to zero.
void unpack(const TensorView& packed, std::span<const std::int64_t> lengths,
            const PaddedView& padded);

// Attention over two disjoint key sets from its two partial results, by their LSE:
// out = (out_a e^(lse_a - m) + out_b e^(lse_b - m)) / (e^(lse_a - m) + e^(lse_b - m)), m the larger
// LSE. Where both are -inf the row is 0 and its LSE -inf; rows of weight 0 are never read into the
// result. `out` and `lse` may be one of the inputs. All [tokens, heads, head_dim] and
// [tokens, heads]; `lse` may be null. Throws invalid_argument naming what does not match.
void merge_by_lse(const TensorView& out_a, const LseView& lse_a, const TensorView& out_b,
                  const LseView& lse_b, const TensorView& out, const LseView& lse);

}  // namespace ragged
