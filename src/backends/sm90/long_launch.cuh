#pragma once

// Launches one build of the long kernel.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/sm90/long_kernel.cuh"
#include "backends/sm90/start.cuh"
#include "backends/sm90/tensor_maps.cuh"

namespace ragged::sm90 {

// Loads the kernel onto the current device. A cudaError_t as int, as below.
template <class Shape>
int prepare_long() {
  return cudaFuncSetAttribute(attend_long<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Shape::shared_bytes);
}

// Starts the items of these rules, at most `max_items` of them. Blocks beyond the
// items end at once. cudaSuccess as an int, or what went wrong.
template <class Shape>
int launch_long(const device::AttentionArgs& args, const Rules& rules, std::int64_t max_items,
                const LaunchShape& shape) {
  MapShape map;
  map.half = std::is_same_v<typename Shape::Element, __half>;
  map.head_dim = Shape::dim;
  map.panel = Shape::panel;
  map.tail = Shape::tail;
  map.together = true;
  map.keys = Shape::keys;
  const TileSplit split(args.heads);
  map.query_heads = split.heads;
  map.query_tokens = split.tokens;
  TensorMaps maps;
  if (const int code = make_maps(maps, map, args); code != cudaSuccess) return code;
  // Once for each device would do; it costs less than remembering which.
  if (const int code = prepare_long<Shape>(); code != cudaSuccess) return code;
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>(max_items * Shape::consumers, shape.sm_count));
  return start(attend_long<Shape>, blocks, Shape::threads, Shape::shared_bytes, shape, maps, args,
               split, rules);
}

}  // namespace ragged::sm90
