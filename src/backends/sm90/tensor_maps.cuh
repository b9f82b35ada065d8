#pragma once

// What the copy engine knows of the tensors: made on the host at each launch from pointers and
// strides, passed by value.

#include <cuda.h>

#include <cstdint>

#include "device/attention_args.hpp"

namespace ragged::sm90 {

// [tokens, heads, head_dim] as boxes: queries of one panel, keys and values of a whole step.
struct TensorMaps {
  CUtensorMap q, k, v, prefix_k, prefix_v;
};

// The box of one copy.
struct MapShape {
  bool half = false;  // fp16, not bf16
  int head_dim = 0;
  int panel = 0;              // columns of a panel: 16, 32 or 64
  bool whole_panels = false;  // panels tile the head dim: one copy brings all of a step's
  int keys = 0;               // rows of a step
  int query_heads = 0;        // heads and tokens of a tile of queries
  int query_tokens = 0;
};

// cudaSuccess as an int, or the code of what the driver refused.
int make_maps(TensorMaps& maps, const MapShape& shape, const device::AttentionArgs& args);

}  // namespace ragged::sm90
