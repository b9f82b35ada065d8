#pragma once

// A caller's tensors and offsets, by pointer. Nothing here owns memory.

#include <string.h>

#include <ragged/c/base.h>

RAGGED_C_BEGIN

// A tensor of shape [tokens, heads, head_dim]. `data` of q, k and v is only read.
typedef struct ragged_tensor {
  size_t struct_size;
  void* data;
  int64_t shape[3];
  // In elements; any value for tokens and heads, 1 for head_dim. All three 0: densely packed.
  int64_t strides[3];
  ragged_dtype dtype;
  int32_t reserved;  // 0
  ragged_device device;
} ragged_tensor;

// Log-sum-exp output: fp32, natural logarithm, [total_q, num_qo_heads].
typedef struct ragged_lse {
  size_t struct_size;
  float* data;
  int64_t shape[2];
  int64_t strides[2];  // in elements; both 0: densely packed
  ragged_device device;
} ragged_lse;

// A one-dimensional index tensor, for example cu_seqlens.
typedef struct ragged_index {
  size_t struct_size;
  const void* data;
  int64_t count;
  int64_t stride;  // in elements; 0: 1
  ragged_index_type type;
  int32_t reserved;  // 0
  ragged_device device;
} ragged_index;

// Segments given one by one, for buffers with gaps between them: segment i is the rows
// [starts[i], starts[i] + lengths[i]). Segments must not overlap; rows in gaps are never touched.
typedef struct ragged_spans {
  size_t struct_size;
  const ragged_index* starts;
  const ragged_index* lengths;
} ragged_spans;

// A densely packed tensor in host memory.
static inline ragged_tensor ragged_tensor_packed(const void* data, ragged_dtype dtype,
                                                 int64_t tokens, int64_t heads, int64_t head_dim) {
  ragged_tensor tensor = {sizeof(ragged_tensor), NULL, {0, 0, 0}, {0, 0, 0}, 0, 0, {0, 0}};
  memcpy(&tensor.data, &data, sizeof data);  // takes the const off for C and C++ alike
  tensor.shape[0] = tokens;
  tensor.shape[1] = heads;
  tensor.shape[2] = head_dim;
  tensor.dtype = dtype;
  return tensor;
}

// A densely packed LSE in host memory.
static inline ragged_lse ragged_lse_packed(float* data, int64_t tokens, int64_t heads) {
  ragged_lse lse = {sizeof(ragged_lse), NULL, {0, 0}, {0, 0}, {0, 0}};
  lse.data = data;
  lse.shape[0] = tokens;
  lse.shape[1] = heads;
  return lse;
}

// Offsets in host memory, one after the other.
static inline ragged_index ragged_index_int32(const int32_t* data, int64_t count) {
  ragged_index index = {sizeof(ragged_index), NULL, 0, 1, RAGGED_INDEX_INT32, 0, {0, 0}};
  index.data = data;
  index.count = count;
  return index;
}
static inline ragged_index ragged_index_int64(const int64_t* data, int64_t count) {
  ragged_index index = {sizeof(ragged_index), NULL, 0, 1, RAGGED_INDEX_INT64, 0, {0, 0}};
  index.data = data;
  index.count = count;
  return index;
}

RAGGED_C_END
