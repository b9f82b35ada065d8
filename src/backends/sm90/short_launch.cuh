#pragma once

// Launches one build of the short kernel.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "backends/sm90/short_kernel.cuh"
#include "backends/sm90/tensor_maps.cuh"

namespace ragged::sm90 {

// Loads the kernel onto the current device. A cudaError_t as int, as below.
template <class Shape>
int prepare_short() {
  return cudaFuncSetAttribute(attend_short<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Shape::shared_bytes);
}

// Starts the items of rule `rule`, at most `max_items` of them, on `stream`.
template <class Shape>
int launch_short(const device::AttentionArgs& args, int rule, std::int64_t max_items,
                 cudaStream_t stream) {
  const TileSplit split(args.heads);
  MapShape map;
  map.half = std::is_same_v<typename Shape::Element, __half>;
  map.head_dim = Shape::dim;
  map.panel = Shape::panel;
  map.whole_panels = false;
  map.keys = kShortRows;
  map.query_heads = split.heads;
  map.query_tokens = kShortRows % split.heads == 0 ? kShortRows / split.heads : split.tokens;
  TensorMaps maps;
  if (const int code = make_maps(maps, map, args); code != cudaSuccess) return code;
  if (const int code = prepare_short<Shape>(); code != cudaSuccess) return code;
  attend_short<Shape>
      <<<static_cast<unsigned>(max_items), Shape::threads, Shape::shared_bytes, stream>>>(
          maps, args, split, rule);
  return cudaGetLastError();
}

}  // namespace ragged::sm90
