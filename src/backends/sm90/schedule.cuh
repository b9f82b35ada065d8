#pragma once

// Which items a block computes, in which order, and which key tiles each walks.
//
// The copying thread decides and the others follow: it reads the units, writes each item into
// shared memory and sends its queries, keys and values after it. Blocks stride over the items of
// their rule, which lie by falling cost, forth and back, so that no block takes the larger of every
// round.

#include <cstdint>

#include "backends/sm90/launches.hpp"
#include "backends/sm90/ptx.cuh"
#include "backends/sm90/shape.cuh"
#include "device/attention_args.hpp"
#include "visible.hpp"

namespace ragged::sm90 {

// Rows of a warpgroup's tile: whole tokens of `heads` rows each, so the last of 64 rows may be
// none.
struct TileSplit {
  int heads = 1;
  int tokens = kTileRows;
  std::uint32_t reciprocal = 1U << 16;  // of heads, times 2^16, rounded up

  TileSplit() = default;
  explicit TileSplit(int heads_)
      : heads(heads_),
        tokens(kTileRows / heads_),
        reciprocal(((1U << 16) + static_cast<std::uint32_t>(heads_) - 1) /
                   static_cast<std::uint32_t>(heads_)) {}
  // Exact for rows below 64.
  __device__ __forceinline__ int token(int row) const {
    return static_cast<int>(static_cast<std::uint32_t>(row) * reciprocal >> 16);
  }
};

// A thread's row of a tile: its token of the unit and its head of the group. Written only if live.
struct TileRow {
  int token;
  int head;
  bool live;
};

// What one warpgroup does of an item.
struct alignas(16) GroupPart {
  std::int32_t live;   // tokens of its tile; 0: it only lets the steps pass
  std::int32_t tiles;  // key tiles that it walks
  std::int32_t edge;   // first tile with keys that not all its rows see, or that are past a source
  std::int32_t whole;  // tiles from this one on are all such
};

// What a try of an item notes of warps that could not finish: bit w for warp w, and whether it was
// for values that are not finite.
inline constexpr std::uint32_t kFailedWarps = 0xffff;
inline constexpr std::uint32_t kFailedValues = 1U << 16;

// A unit for one head group, as the warpgroups read it.
struct alignas(16) Item {
  std::int32_t q_row;      // of the unit's first token, in q and out
  std::int32_t row_begin;  // the same within its segment
  std::int32_t rows;       // tokens
  std::int32_t q_len;
  std::int32_t kv_len;
  std::int32_t prefix_len;
  std::int32_t key_begin;  // keys that the item walks: those that its rows see, of its chunk
  std::int32_t key_end;
  std::int32_t head;   // first query head
  std::int32_t tiles;  // steps that the block walks
  std::int32_t redo;   // bit w: warp w failed at the try before. 0: this is the first
  std::int32_t last;   // after this item the block looks whether it is done
  std::int32_t index;  // of the item, among those of the rule
  std::int32_t prefix_begin;
  std::int32_t kv_begin;
  std::int32_t kv_head;
  std::int32_t first_try;  // redo: where the notes of the try before lie
  std::int32_t part;       // warpgroups [part % 16, part / 16) compute
  std::int16_t follows;    // the references follow the maxima (softmax.cuh)
  std::int16_t guarded;    // some values are not finite (guard.cuh)
  std::int32_t team;       // its warpgroups share one tile of rows (team.cuh)
  GroupPart groups[4];
};
static_assert(sizeof(Item) == kItemBytes);

// Keys [begin, end) of a segment in steps of at most kKeys: first those in the prefix tensors, then
// the fresh ones, so that no step takes keys of both.
template <int kKeys>
struct KeyWalk {
  int begin;
  int end;
  int seam;       // where fresh keys begin, in [begin, end]
  int seam_tile;  // the tile of the first of them

  __device__ __forceinline__ explicit KeyWalk(const Item& item)
      : KeyWalk(item.key_begin, item.key_end, item.prefix_len) {}
  __device__ __forceinline__ KeyWalk(int key_begin, int key_end, int prefix_len)
      : begin(key_begin),
        end(key_end),
        seam(min(max(prefix_len, key_begin), key_end)),
        seam_tile((seam - begin + kKeys - 1) / kKeys) {}
  // Tiles that hold keys below `key`.
  __device__ __forceinline__ int tiles_to(int key) const {
    if (key <= begin) return 0;
    if (key <= seam) return (key - begin + kKeys - 1) / kKeys;
    return seam_tile + (key - seam + kKeys - 1) / kKeys;
  }
  // Leading tiles whose every key lies below `key`; a prefix's partial tile counts among them.
  __device__ __forceinline__ int whole_tiles_to(int key) const {
    if (key <= begin) return 0;
    if (key < seam) return (key - begin) / kKeys;
    return seam_tile + (key - seam) / kKeys;
  }
  // The last tile of a prefix where it is partial and fresh keys follow; else -1.
  __device__ __forceinline__ int partial_seam() const {
    return (seam - begin) % kKeys != 0 ? seam_tile - 1 : -1;
  }
  __device__ __forceinline__ int first_key(int tile) const {
    return tile < seam_tile ? begin + tile * kKeys : seam + (tile - seam_tile) * kKeys;
  }
  // Keys from the tile's first to the end of its source's part of the walk.
  __device__ __forceinline__ int keys_left(int tile) const {
    return (tile < seam_tile ? seam : end) - first_key(tile);
  }
};

// The units of a launch: those of its last rule, then those of teams, which cost less.
struct Work {
  std::int32_t first_unit;  // of the teams' rule, where the other's come next
  std::int32_t teams;       // units
  std::int32_t others;
  std::int32_t items;

  __device__ __forceinline__ Work(const device::AttentionArgs& args, const Rules& rules)
      : first_unit(args.table->first_unit[rules.last]),
        teams(rules.teams < 0 ? 0 : args.table->num_units[rules.teams]),
        others(args.table->num_units[rules.last]),
        items((teams + others) * args.head_groups) {
    first_unit -= teams;
  }
  __device__ __forceinline__ bool is_team(int unit) const { return unit >= others; }
  __device__ __forceinline__ int place(int unit) const {
    return first_unit + (unit >= others ? unit - others : unit + teams);
  }
};
static_assert(sizeof(Work) == kWorkBytes);

// The items of a launch as turns of its blocks. Items that do not fill a last round of blocks are
// cut into parts of fewer warpgroups, as far as blocks would stand idle: a warpgroup's tile does
// not depend on who computes beside it.
class Turns {
 public:
  // Precondition: items, rounded up to whole rounds, times kGroups fit 31 bits.
  __device__ __forceinline__ explicit Turns(int items) : items_(items) {}
  template <int kGroups>
  __device__ __forceinline__ bool has(int turn) const {
    return place(turn) < whole() + (items_ - whole()) * parts<kGroups>();
  }
  template <int kGroups>
  __device__ __forceinline__ int item(int turn) const {
    const int at = place(turn);
    return at < whole() ? at : whole() + (at - whole()) / parts<kGroups>();
  }
  // Warpgroups [begin, end) of the item, as begin + 16 * end.
  template <int kGroups>
  __device__ __forceinline__ int part(int turn) const {
    const int at = place(turn);
    const int of = parts<kGroups>();
    if (at < whole() || of == 1) return 16 * kGroups;
    const int part = (at - whole()) % of;
    if (of == kGroups) return part + 16 * (part + 1);
    constexpr int kHalf = (kGroups + 1) / 2;
    return part == 0 ? 16 * kHalf : kHalf + 16 * kGroups;
  }

 private:
  // Blocks go forth and back over the items, so that none takes the larger of every round.
  __device__ __forceinline__ static int place(int turn) {
    const int block = turn % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    return turn * static_cast<int>(gridDim.x) + block;
  }
  // Items of whole rounds. Found again each time: the copying warp has few registers.
  __device__ __forceinline__ int whole() const {
    return items_ - items_ % static_cast<int>(gridDim.x);
  }
  template <int kGroups>
  __device__ __forceinline__ int parts() const {
    const int blocks = static_cast<int>(gridDim.x);
    const int rest = items_ - whole();
    return rest * kGroups <= blocks ? kGroups : rest * 2 <= blocks ? min(kGroups, 2) : 1;
  }
  int items_;
};

__device__ __forceinline__ bool holds(const device::TensorArg& tensor, std::int64_t end) {
  return end <= tensor.tokens;
}

// One past the last key of the item that the row of token `token` of the unit sees.
__device__ __forceinline__ int row_end(const device::AttentionArgs& args, const Item& item,
                                       int token) {
  const int end = visible_end_of<int>(args.mask, item.row_begin + token, item.q_len, item.kv_len);
  return min(end, item.key_end);
}

// Fills the parts of `item` that its unit gives. A unit that reaches beyond the tensors' rows,
// which offsets that were never on the host can make, has no rows.
template <int kKeys>
__device__ __forceinline__ void set_unit(Item& item, const device::AttentionArgs& args,
                                         const device::Unit& unit, int head_group) {
  const int fresh = unit.kv_len - unit.prefix_len;
  const bool fits =
      holds(args.q, static_cast<std::int64_t>(unit.q_begin) + unit.q_len) &&
      holds(args.k, static_cast<std::int64_t>(unit.kv_begin) + fresh) &&
      (unit.prefix_len == 0 ||
       holds(args.prefix_k, static_cast<std::int64_t>(unit.prefix_begin) + unit.prefix_len));
  item.q_row = unit.q_begin + unit.row_begin;
  item.row_begin = unit.row_begin;
  item.rows = fits ? unit.rows : 0;
  item.q_len = unit.q_len;
  item.kv_len = unit.kv_len;
  item.prefix_len = unit.prefix_len;
  item.key_begin = 0;
  item.key_end =
      visible_end_of<int>(args.mask, unit.row_begin + unit.rows - 1, unit.q_len, unit.kv_len);
  item.head = head_group * args.heads;
  item.kv_head = item.head / (args.num_qo_heads / args.num_kv_heads);
  item.prefix_begin = unit.prefix_begin;
  item.kv_begin = unit.kv_begin;
  item.tiles = fits ? KeyWalk<kKeys>(item).tiles_to(item.key_end) : 0;
}

// Fills the part of warpgroup `group`. After set_unit() and everything else of the item.
template <int kKeys>
__device__ __forceinline__ void set_group(Item& item, const device::AttentionArgs& args,
                                          const TileSplit& split, int group) {
  const bool computes = group >= item.part % 16 && group < item.part / 16 &&
                        (item.redo == 0 || (item.redo >> 4 * group & 15) != 0);
  const int first = item.team != 0 ? 0 : group * split.tokens;
  const int live = computes ? max(0, min(item.rows - first, split.tokens)) : 0;
  GroupPart part = {live, 0, 0, 0};
  if (live > 0 && item.tiles > 0) {
    const KeyWalk<kKeys> walk(item);
    part.tiles = walk.tiles_to(row_end(args, item, first + live - 1));
    part.whole = walk.whole_tiles_to(row_end(args, item, first));
    const int seam = walk.partial_seam();
    part.edge = seam >= 0 ? min(seam, part.whole) : part.whole;
  }
  item.groups[group] = part;
}

}  // namespace ragged::sm90
