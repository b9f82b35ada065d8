#pragma once

// What a block of the short kernel holds, and how it comes: all keys and values of one head of one
// segment, and its unit's queries, sent at once by one thread in boxes of 16 rows.

#include <cstdint>

#include "backends/sm90/ptx.cuh"
#include "backends/sm90/schedule.cuh"
#include "backends/sm90/short_shape.cuh"
#include "backends/sm90/tensor_maps.cuh"

namespace ragged::sm90 {

template <class Shape>
class ResidentSegment {
 public:
  __device__ __forceinline__ ResidentSegment(const TensorMaps& maps, const TileSplit& split,
                                             const Item& item, SharedAddress shared)
      : maps_(maps), split_(split), item_(item), shared_(shared) {}

  // Once for a block, before its first segment. One thread comes here.
  static __device__ __forceinline__ void init(SharedAddress shared) {
    barrier_init(shared + Shape::barriers_at, 1);
    barrier_init(shared + Shape::barriers_at + 8, 1);
    barrier_init_fence();
  }
  // Of a segment with keys. One thread comes here.
  __device__ __forceinline__ void send() const {
    // Tokens of a copy of queries: 16 rows where whole tokens fill them, else a tile.
    const int step = kShortRows % split_.heads == 0 ? kShortRows / split_.heads : split_.tokens;
    const int boxes = (item_.rows + step - 1) / step;
    const int key_boxes = (item_.key_end + kShortRows - 1) / kShortRows;
    barrier_expect(queries_and_keys(),
                   (boxes * step * split_.heads + key_boxes * kShortRows) * Shape::row_bytes);
    barrier_expect(values_barrier(), key_boxes * kShortRows * Shape::row_bytes);
#pragma unroll 1
    for (int box = 0; box < key_boxes; ++box) {
      send_rows(maps_.k, Shape::keys_at, queries_and_keys(), box);
    }
#pragma unroll 1
    for (int token = 0; token < item_.rows; token += step) send_queries(token);
#pragma unroll 1
    for (int box = 0; box < key_boxes; ++box) {
      send_rows(maps_.v, Shape::values_at, values_barrier(), box);
    }
  }

  // Parity: of the number of segments with keys that the block had before.
  __device__ __forceinline__ void wait_queries_and_keys(std::uint32_t parity) const {
    barrier_wait(queries_and_keys(), parity);
  }
  __device__ __forceinline__ void wait_values(std::uint32_t parity) const {
    barrier_wait(values_barrier(), parity);
  }

  __device__ __forceinline__ SharedAddress queries(int tile) const {
    return shared_ + Shape::queries_at + tile * Shape::query_bytes;
  }
  __device__ __forceinline__ SharedAddress keys() const { return shared_ + Shape::keys_at; }
  __device__ __forceinline__ SharedAddress values() const { return shared_ + Shape::values_at; }

 private:
  __device__ __forceinline__ void send_rows(const PanelMaps& map, int at, SharedAddress barrier,
                                            int box) const {
    const int row = box * kShortRows;
#pragma unroll
    for (int panel = 0; panel < Shape::panels; ++panel) {
      copy_box(shared_ + at + panel * Shape::key_panel_bytes + row * Shape::panel_row_bytes,
               &map.main, barrier, panel * Shape::panel, item_.kv_begin + row, item_.kv_head);
    }
    if constexpr (Shape::tail > 0) {
      copy_box(shared_ + at + Shape::key_tail_at + row * Shape::tail_row_bytes, &map.tail, barrier,
               Shape::main, item_.kv_begin + row, item_.kv_head);
    }
  }

  __device__ __forceinline__ void send_queries(int token) const {
    const int tile = token / split_.tokens;
    const int row = (token - tile * split_.tokens) * split_.heads;
#pragma unroll
    for (int panel = 0; panel < Shape::panels; ++panel) {
      copy_box(queries(tile) + panel * Shape::query_panel_bytes + row * Shape::panel_row_bytes,
               &maps_.q.main, queries_and_keys(), panel * Shape::panel, item_.head,
               item_.q_row + token);
    }
    if constexpr (Shape::tail > 0) {
      copy_box(queries(tile) + Shape::query_tail_at + row * Shape::tail_row_bytes, &maps_.q.tail,
               queries_and_keys(), Shape::main, item_.head, item_.q_row + token);
    }
  }

  __device__ __forceinline__ SharedAddress queries_and_keys() const {
    return shared_ + Shape::barriers_at;
  }
  __device__ __forceinline__ SharedAddress values_barrier() const {
    return shared_ + Shape::barriers_at + 8;
  }

  const TensorMaps& maps_;
  const TileSplit& split_;
  const Item& item_;
  const SharedAddress shared_;
};

}  // namespace ragged::sm90
