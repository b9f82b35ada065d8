#pragma once

// The rule that cuts a segment into work units: one pure function of the segment's own lengths,
// used by the host's planner and by the device's prologue.

#include <cstdint>

#include <ragged/plan.hpp>

#include "visible.hpp"

namespace ragged {

// The rule of the tile table that a segment falls under. Precondition: num_rules >= 1 and the last
// rule holds every length.
RAGGED_HOST_DEVICE constexpr int tile_rule(const TileTable& table, std::int64_t q_len,
                                           std::int64_t kv_len) {
  int rule = 0;
  while (rule + 1 < table.num_rules &&
         (q_len > table.rules[rule].max_q_length || kv_len > table.rules[rule].max_kv_length)) {
    ++rule;
  }
  return rule;
}

// Query rows of each unit but the last: the segment is cut into the fewest units of at most
// unit_rows rows, evened out in steps of q_rows.
RAGGED_HOST_DEVICE constexpr std::int64_t rows_per_unit(const Tile& tile, std::int64_t q_len) {
  if (q_len <= tile.unit_rows) return tile.unit_rows;
  const std::int64_t units = (q_len + tile.unit_rows - 1) / tile.unit_rows;
  const std::int64_t even = (q_len + units - 1) / units;
  return (even + tile.q_rows - 1) / tile.q_rows * tile.q_rows;
}

// Units of a segment; 0 for a segment without rows.
RAGGED_HOST_DEVICE constexpr std::int64_t units_of(const Tile& tile, std::int64_t q_len) {
  const std::int64_t rows = rows_per_unit(tile, q_len);
  return (q_len + rows - 1) / rows;
}

}  // namespace ragged
