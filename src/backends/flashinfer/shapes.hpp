#pragma once

// The sizes that FlashInfer's kernels are compiled with: host code plans by them.

namespace ragged::fi {

// Packed rows (query rows x group) of the largest tile: at 256 columns more rows have more
// accumulators than registers.
constexpr int most_rows(int dim) { return dim < 256 ? 128 : 64; }

// Warps of a block: along the rows, and along the keys.
constexpr int warps_q(int rows) { return rows == 16 ? 1 : 4; }
constexpr int warps_kv(int rows) { return 4 / warps_q(rows); }

// Key tiles of 16 that each warp along the keys takes at once: what FlashInfer takes where two
// blocks share the 228 KB of an SM. A block stays below 99 KB, what one may have on every GPU from
// Ampere on.
constexpr int key_tiles(int dim, int rows) {
  if (rows == 16) return 256 / dim;
  if (rows == 64) return dim <= 128 ? 8 : 4;
  return 4;
}

// Keys of one step of a block.
constexpr int step_keys(int dim, int rows) { return 16 * key_tiles(dim, rows) * warps_kv(rows); }

}  // namespace ragged::fi
