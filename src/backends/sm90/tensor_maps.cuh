#pragma once

// What the copy engine knows of the tensors: made on the host at each launch from pointers and
// strides, passed by value.

#include <cuda.h>

#include <cstdint>

#include "device/attention_args.hpp"

namespace ragged::sm90 {

// A tensor's whole panels and its tail (shape.cuh).
struct PanelMaps {
  CUtensorMap main, tail;
};

// [tokens, heads, head_dim] as boxes: queries of one panel; rows of keys and values.
struct TensorMaps {
  PanelMaps q, k, v, prefix_k, prefix_v;
};

// The boxes of the copies.
struct MapShape {
  bool half = false;  // fp16, not bf16
  int head_dim = 0;
  int panel = 0;          // columns: 16, 32 or 64
  int tail = 0;           // the same, or 0: no tail
  int keys = 0;           // rows of keys and values
  bool together = false;  // one copy brings all whole panels of keys or values
  int query_heads = 0;    // heads and tokens of queries
  int query_tokens = 0;
};

// cudaSuccess as an int, or the code of what the driver refused.
int make_maps(TensorMaps& maps, const MapShape& shape, const device::AttentionArgs& args);

}  // namespace ragged::sm90
