#pragma once

// What one build of the long kernel is made of, and where its parts lie in shared memory.

#include <cstdint>

namespace ragged::sm90 {

// Rows of a warpgroup's tile: what one product instruction computes.
inline constexpr int kTileRows = 64;
// Bytes after which the widest swizzle repeats.
inline constexpr int kAlignment = 1024;

// How the columns of a head lie: whole panels of [rows][64] (or 32, 16 for small heads), which a
// swizzle of the panel's width keeps free of bank conflicts, and the rest in one narrower panel,
// filled up with zeros. QK contracts 16 columns at a time: 72 takes 80. Few and wide panels matter:
// at D 72 narrow ones of 16 columns took 198 us for 4096 tokens of 16 heads, 64 and 8 take 151.
template <int kDim>
struct Columns {
  static constexpr int dim = kDim;
  static constexpr int panel = kDim >= 64 ? 64 : kDim >= 32 ? 32 : 16;
  static constexpr int panels = kDim / panel;
  static constexpr int main = panels * panel;  // columns of whole panels
  static constexpr int rest = kDim - main;
  static constexpr int tail = rest == 0 ? 0 : rest <= 16 ? 16 : rest <= 32 ? 32 : 64;
  static constexpr int panel_row_bytes = panel * 2;
  static constexpr int tail_row_bytes = tail * 2;
  static constexpr int row_bytes = main * 2 + tail_row_bytes;
  static_assert(kDim % 8 == 0 && panels > 0);
};

// Of a block.
inline constexpr int kMostSharedBytes = 227 * 1024;

// sizeof(Item).
inline constexpr int kItemBytes = 144;
// sizeof(Work).
inline constexpr int kWorkBytes = 16;

constexpr int round_up_to(int value, int step) { return (value + step - 1) / step * step; }

// T: element. kDim: the true head dim, a multiple of 8. kConsumers: warpgroups with a tile each.
// kKeys: keys of a step. kStages: steps of K and of V in flight. kQuerySlots: items whose queries
// are held at once. kTeams: has them (team.cuh).
template <class T, int kDim, int kConsumers, int kKeys, int kStages, int kQuerySlots, bool kTeams>
struct LongShape : Columns<kDim> {
  using Element = T;
  using Layout = Columns<kDim>;
  static constexpr int consumers = kConsumers;
  static constexpr int keys = kKeys;
  static constexpr int stages = kStages;
  static constexpr int query_slots = kQuerySlots;
  static constexpr bool teams = kTeams;

  // A tile of queries, and a step of keys or values: whole panels, then the tail.
  static constexpr int query_panel_bytes = kTileRows * Layout::panel_row_bytes;
  static constexpr int query_tail_at = Layout::panels * query_panel_bytes;
  static constexpr int query_bytes = round_up_to(kTileRows * Layout::row_bytes, kAlignment);
  static constexpr int key_panel_bytes = kKeys * Layout::panel_row_bytes;
  static constexpr int key_tail_at = Layout::panels * key_panel_bytes;
  static constexpr int key_bytes = round_up_to(kKeys * Layout::row_bytes, kAlignment);

  static constexpr int threads = (kConsumers + 1) * 128;
  // What 64 K registers give a thread when three to five warpgroups share them, the copying one
  // with a small share.
  static constexpr int consumer_registers = kConsumers == 2 ? 232 : kConsumers == 3 ? 160 : 112;
  static constexpr int producer_registers = kConsumers == 2 ? 40 : 32;

  // Offsets from a boundary of kAlignment.
  static constexpr int queries_at = 0;
  static constexpr int keys_at = queries_at + kQuerySlots * kConsumers * query_bytes;
  static constexpr int values_at = keys_at + kStages * key_bytes;
  static constexpr int barriers_at = values_at + kStages * key_bytes;
  static constexpr int num_barriers = 4 * kStages + 2 * kQuerySlots;
  static constexpr int items_at = barriers_at + (num_barriers * 8 + 15) / 16 * 16;
  // Items whose notes are kept: one may be judged while two are sent after the next.
  static constexpr int num_items = 4;
  static constexpr int failed_at = items_at + num_items * kItemBytes;
  static constexpr int failed_rows_at = failed_at + num_items * 4;
  static constexpr int failed_rows_bytes = num_items * kConsumers * 4 * 8;
  static constexpr int work_at = failed_rows_at + failed_rows_bytes;
  static constexpr int team_stats_at = work_at + kWorkBytes;
  static constexpr int team_stats_bytes = kTeams ? 128 * 16 : 0;
  // Where a team's accumulators meet: apart where there is room, so that the next item's queries
  // may come meanwhile, else where the queries lay.
  static constexpr int unit_at = team_stats_at + team_stats_bytes;
  static constexpr int team_part_at = round_up_to(unit_at + 48, 16);
  static constexpr int team_part_bytes = kTeams ? kTileRows * kDim * 4 : 0;
  static constexpr bool team_apart =
      team_part_at + team_part_bytes + kAlignment <= kMostSharedBytes;
  static constexpr int shared_bytes =
      team_part_at + (team_apart ? team_part_bytes : 0) + kAlignment;

  static_assert(kKeys % 16 == 0);
  static_assert(shared_bytes <= kMostSharedBytes);
};

// The barriers of a block. Stage s of K: keys_full + 8 s, and so on.
template <class Shape>
struct Barriers {
  static constexpr int keys_full = Shape::barriers_at;
  static constexpr int keys_empty = keys_full + 8 * Shape::stages;
  static constexpr int values_full = keys_empty + 8 * Shape::stages;
  static constexpr int values_empty = values_full + 8 * Shape::stages;
  static constexpr int queries_full = values_empty + 8 * Shape::stages;
  static constexpr int queries_empty = queries_full + 8 * Shape::query_slots;
};

// Named barriers: the ring of warpgroups takes one each from kRingBarrier, then one each for a
// warpgroup alone.
inline constexpr int kRingBarrier = 1;
inline constexpr int kGroupBarrier = 5;
inline constexpr int kEndBarrier = 9;
inline constexpr int kTeamBarrier = 10;

// A place in a ring of slots, and the parity of its present round, from the number of steps before.
template <int kSlots>
struct RingPlace {
  std::uint32_t steps = 0;
  __device__ __forceinline__ std::uint32_t slot() const { return steps % kSlots; }
  __device__ __forceinline__ std::uint32_t parity() const { return steps / kSlots % 2; }
};

}  // namespace ragged::sm90
