#pragma once

// What one build of the short kernel is made of, and where its parts lie in shared memory.

#include <cstdint>

#include "backends/sm90/shape.cuh"

namespace ragged::sm90 {

// Rows that one copy brings: what a segment's end is rounded up to.
inline constexpr int kShortRows = 16;

// kKeys: most keys of a segment. kTiles: most 64-row tiles of a unit. kBlocks: blocks that a
// multiprocessor holds at once, which bounds registers.
template <class T, int kDim, int kKeys, int kTiles, int kBlocks>
struct ShortShape : Columns<kDim> {
  using Element = T;
  using Layout = Columns<kDim>;
  static constexpr int keys = kKeys;
  static constexpr int tiles = kTiles;
  static constexpr int blocks = kBlocks;
  static constexpr int threads = 128;

  // As in LongShape.
  static constexpr int query_panel_bytes = kTileRows * Layout::panel_row_bytes;
  static constexpr int query_tail_at = Layout::panels * query_panel_bytes;
  static constexpr int query_bytes = round_up_to(kTileRows * Layout::row_bytes, kAlignment);
  static constexpr int key_panel_bytes = kKeys * Layout::panel_row_bytes;
  static constexpr int key_tail_at = Layout::panels * key_panel_bytes;
  static constexpr int key_bytes = round_up_to(kKeys * Layout::row_bytes, kAlignment);

  static constexpr int queries_at = 0;
  static constexpr int keys_at = queries_at + kTiles * query_bytes;
  static constexpr int values_at = keys_at + key_bytes;
  static constexpr int barriers_at = values_at + key_bytes;  // one for Q and K, one for V
  static constexpr int shared_bytes = barriers_at + 16;

  static_assert(kKeys % kShortRows == 0);
  static_assert(kBlocks * (shared_bytes + 1024) <= 228 * 1024);
};

}  // namespace ragged::sm90
