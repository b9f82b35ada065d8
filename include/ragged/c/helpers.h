#pragma once

// What users reach for around attention: padded to packed and back, merging two partial results,
// and offsets. Host memory only.

#include <ragged/c/tensor.h>

RAGGED_C_BEGIN

// A padded tensor of shape [batch, max_len, heads, head_dim].
typedef struct ragged_padded {
  size_t struct_size;
  void* data;
  int64_t shape[4];
  int64_t strides[4];  // in elements, 1 for head_dim; all four 0: densely packed
  ragged_dtype dtype;
  int32_t reserved;  // 0
} ragged_padded;

// Copies rows [0, lengths[b]) of every batch entry end to end into `packed`
// ([sum(lengths), heads, head_dim]). `lengths` has `count` entries, one for each batch entry.
RAGGED_C_API int ragged_pack(const ragged_padded* padded, const int64_t* lengths, size_t count,
                             const ragged_tensor* packed);
// The inverse; rows of `padded` past a length are set to zero.
RAGGED_C_API int ragged_unpack(const ragged_tensor* packed, const int64_t* lengths, size_t count,
                               const ragged_padded* padded);

// Attention over two disjoint key sets from its two partial results, by their LSE. Where both LSE
// are -inf the row is 0 and its LSE -inf. `out` and `lse` may be one of the inputs; `lse` may be
// NULL. All [tokens, heads, head_dim] and [tokens, heads].
RAGGED_C_API int ragged_merge_by_lse(const ragged_tensor* out_a, const ragged_lse* lse_a,
                                     const ragged_tensor* out_b, const ragged_lse* lse_b,
                                     const ragged_tensor* out, const ragged_lse* lse);

// cu_seqlens of segments packed end to end. `lengths` has `count` entries, `offsets` room for
// count + 1. The first negative length, or the index where the sum leaves 64 bits, is named.
RAGGED_C_API int ragged_offsets_from_lengths(const int64_t* lengths, size_t count,
                                             int64_t* offsets);

RAGGED_C_END
