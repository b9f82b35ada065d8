#pragma once

// Launches one build of the short kernel.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/sm90/short_kernel.cuh"
#include "backends/sm90/start.cuh"
#include "backends/sm90/tensor_maps.cuh"

namespace ragged::sm90 {

using ShortKernel = void (*)(TensorMaps, device::AttentionArgs, TileSplit, int);

// A cudaError_t as int, as below.
template <class Shape>
int prepare(ShortKernel kernel) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Shape::shared_bytes);
}

// Loads the kernels onto the current device.
template <class Shape>
int prepare_short() {
  const int code = prepare<Shape>(attend_short<Shape, false>);
  return code != cudaSuccess ? code : prepare<Shape>(attend_short<Shape, true>);
}

// Most blocks of a launch: one for each item, but where a captured launch must hold far more items
// than come, blocks beyond them cost time, and those of many items take several each.
inline constexpr std::int64_t kMostShortBlocks = std::int64_t{1} << 17;

// Starts the items of rule `rule`, at most `max_items` of them.
template <class Shape>
int launch_short(const device::AttentionArgs& args, int rule, std::int64_t max_items,
                 const LaunchShape& shape) {
  const TileSplit split(args.heads);
  MapShape map;
  map.half = std::is_same_v<typename Shape::Element, __half>;
  map.head_dim = Shape::dim;
  map.panel = Shape::panel;
  map.tail = Shape::tail;
  map.keys = kShortRows;
  map.query_heads = split.heads;
  map.query_tokens = kShortRows % split.heads == 0 ? kShortRows / split.heads : split.tokens;
  TensorMaps maps;
  if (const int code = make_maps(maps, map, args); code != cudaSuccess) return code;
  const ShortKernel kernel =
      hides_keys(args) ? attend_short<Shape, true> : attend_short<Shape, false>;
  if (const int code = prepare<Shape>(kernel); code != cudaSuccess) return code;
  const auto blocks = static_cast<unsigned>(std::min(max_items, kMostShortBlocks));
  return start(kernel, blocks, Shape::threads, Shape::shared_bytes, shape, maps, args, split, rule);
}

}  // namespace ragged::sm90
