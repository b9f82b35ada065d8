#pragma once

// What every kernel here is launched with, and what a block knows of its item.

#include <cstdint>

#include "cut.hpp"
#include "device/attention_args.hpp"

namespace ragged::sm80 {

struct KernelArgs {
  device::AttentionArgs a;
  // Rules of the tile table whose units this launch takes: [first_rule, last_rule].
  std::int32_t first_rule = 0;
  std::int32_t last_rule = 0;
  std::int32_t split_keys[kMaxTileRules] = {};  // Tile::split_keys of each rule
  std::int32_t group = 1;                       // query heads of a key head
  std::uint32_t heads_inverse = 0;  // 2^32 / a.heads rounded up; unused where heads is 1
  // Scores are scaled by a positive factor: queries are multiplied by query_factor (-1 or 0) where
  // the scale is negative or zero.
  float scale = 1.0F;
  float scale_log2 = 1.0F;
  float query_factor = 1.0F;
  // Rows begin at multiples of 16 bytes: 16-byte copies.
  bool q_aligned = false;
  bool keys_aligned = false;  // k, v and the prefix's
  bool out_aligned = false;
  std::uint32_t* counters = nullptr;  // of pieces that are done, by slot
  float* partials = nullptr;
  std::int64_t slot_floats = 0;
  std::int64_t turn_slot = 0;  // first of the blocks' own
};

// Packed row -> token of the unit, and back to the query head within the group.
__device__ __forceinline__ std::int32_t token_of(const KernelArgs& p, std::int32_t row) {
  const auto r = static_cast<std::uint32_t>(row);
  return p.a.heads == 1 ? row : static_cast<std::int32_t>(__umulhi(r, p.heads_inverse));
}

// Rows of one head in device memory; the stride between them is the tensor's.
using RowPointer = const char*;

// Lies in shared memory: a thread's registers are for the tile.
struct Item {
  device::Unit unit;
  std::int32_t head_group;
  std::int32_t first_head;  // query head of packed row 0
  std::int32_t rows;        // packed; 0: nothing to do, -1: no more items
  std::int32_t min_end;     // keys that the unit's first and last rows see: ends never fall
  std::int32_t max_end;
  std::int32_t split_keys;  // of the unit's rule
  // Row 0 of: q, packed row 0 of the unit; k and v, key 0 of the segment as if it lay among the
  // fresh keys (prefix_len rows before the first of them); prefix_k and prefix_v, key 0.
  RowPointer pointers[5];

  [[nodiscard]] __device__ __forceinline__ RowPointer q() const { return pointers[0]; }
  // 0: keys, 1: values.
  [[nodiscard]] __device__ __forceinline__ RowPointer fresh(int which) const {
    return pointers[1 + which];
  }
  [[nodiscard]] __device__ __forceinline__ RowPointer prefix(int which) const {
    return pointers[3 + which];
  }

  __device__ __forceinline__ std::int32_t end_of(const KernelArgs& p, std::int32_t row) const {
    return visible_end_of<std::int32_t>(p.a.mask, unit.row_begin + token_of(p, row), unit.q_len,
                                        unit.kv_len);
  }
};

// The unit of an item, from three 16-byte loads.
__device__ __forceinline__ device::Unit load_unit(const device::Unit* from) {
  device::Unit unit;
  const auto* words = reinterpret_cast<const int4*>(from);
  const int4 a = __ldg(words);
  const int4 b = __ldg(words + 1);
  const int4 c = __ldg(words + 2);
  unit.q_begin = a.x;
  unit.q_len = a.y;
  unit.row_begin = a.z;
  unit.rows = a.w;
  unit.kv_begin = b.x;
  unit.kv_len = b.y;
  unit.prefix_begin = b.z;
  unit.prefix_len = b.w;
  unit.chunk = c.x;
  unit.num_chunks = c.y;
  unit.partial = c.z;
  unit.segment = c.w;
  return unit;
}

// Whether the unit lies within the tensors: offsets made on the device are not checked on the host.
__device__ __forceinline__ bool fits(const KernelArgs& p, const device::Unit& u) {
  const auto inside = [](std::int64_t begin, std::int64_t length, std::int64_t bound) {
    return begin >= 0 && length >= 0 && begin + length <= bound;
  };
  const std::int64_t fresh = std::int64_t{u.kv_len} - u.prefix_len;
  return inside(u.row_begin, u.rows, u.q_len) && inside(u.q_begin, u.q_len, p.a.q.tokens) &&
         inside(u.q_begin, u.q_len, p.a.out.tokens) && inside(u.kv_begin, fresh, p.a.k.tokens) &&
         inside(u.kv_begin, fresh, p.a.v.tokens) &&
         (u.prefix_len == 0 || (inside(u.prefix_begin, u.prefix_len, p.a.prefix_k.tokens) &&
                                inside(u.prefix_begin, u.prefix_len, p.a.prefix_v.tokens)));
}

// What follows from a unit and the item's id. One warp does it for its block, a pointer a lane.
template <int kElementBytes>
__device__ __forceinline__ void fill_item(const KernelArgs& p, const device::Unit& unit,
                                          std::int32_t split_keys, std::uint32_t id,
                                          std::uint32_t lane, Item& item) {
  const device::Unit u = unit;
  const bool whole = u.rows > 0 && fits(p, u);
  const auto head_group =
      static_cast<std::int32_t>(id % static_cast<std::uint32_t>(p.a.head_groups));
  const std::int32_t first_head = head_group * p.a.heads;
  const std::int32_t rows = u.rows * p.a.heads;
  if (lane == 0) {
    item.unit = u;
    item.head_group = head_group;
    item.first_head = first_head;
    item.rows = whole ? rows : 0;
    item.split_keys = split_keys;
  }
  if (!whole) return;
  if (lane < 2) {
    const std::int32_t row = lane == 0 ? 0 : u.rows - 1;
    const auto end =
        static_cast<std::int32_t>(visible_end(p.a.mask, u.row_begin + row, u.q_len, u.kv_len));
    (lane == 0 ? item.min_end : item.max_end) = end;
  }
  if (lane < 5) {
    const bool fresh = lane < 3;
    const device::TensorArg& tensor = lane == 0   ? p.a.q
                                      : lane == 1 ? p.a.k
                                      : lane == 2 ? p.a.v
                                      : lane == 3 ? p.a.prefix_k
                                                  : p.a.prefix_v;
    const std::int64_t row = lane == 0 ? std::int64_t{u.q_begin} + u.row_begin
                             : fresh   ? std::int64_t{u.kv_begin} - u.prefix_len
                                       : u.prefix_begin;
    const std::int64_t head = lane == 0 ? first_head : first_head / p.group;
    item.pointers[lane] = static_cast<RowPointer>(tensor.data) +
                          kElementBytes * (row * tensor.token_stride + head * tensor.head_stride);
  }
}

}  // namespace ragged::sm80
