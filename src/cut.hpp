#pragma once

// The rule that cuts a segment into work units: one pure function of the segment's own lengths,
// used by the host's planner and by the device's prologue.

#include <cstdint>

#include <ragged/plan.hpp>

#include "visible.hpp"

namespace ragged {

// The rule of the tile table that a segment falls under. Precondition: num_rules >= 1 and the last
// rule holds every length. Looks at every rule, from the last: where lengths differ, stopping early
// costs a processor more in wrong guesses than it saves.
RAGGED_HOST_DEVICE constexpr std::int32_t tile_rule(const TileTable& table, std::int64_t q_len,
                                                    std::int64_t kv_len) {
  std::int32_t rule = table.num_rules - 1;
  for (std::int32_t i = rule - 1; i >= 0; --i) {
    const bool holds =
        (q_len <= table.rules[i].max_q_length) & (kv_len <= table.rules[i].max_kv_length);
    rule = holds ? i : rule;
  }
  return rule;
}

// a / b rounded up, for a >= 0 and b >= 1 whose sum fits 63 bits.
RAGGED_HOST_DEVICE constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return divide(a + b - 1, b);
}

// a rounded up to a multiple of step, for a >= 0 and step >= 1.
RAGGED_HOST_DEVICE constexpr std::int64_t round_up(std::int64_t a, std::int64_t step) {
  return divide_up(a, step) * step;
}

// Units of a segment: the fewest of at most unit_rows rows; 0 for a segment without rows.
RAGGED_HOST_DEVICE constexpr std::int64_t units_of(const Tile& tile, std::int64_t q_len) {
  return divide_up(q_len, tile.unit_rows);
}

// Query rows of each unit but the last, which holds the rest: evened out over `units` of them in
// steps of q_rows. As unit_rows is a multiple of q_rows the step up never passes it, so the number
// of units stays. Precondition: units = units_of(tile, q_len) is at least 1. Without branches on
// the lengths, which a processor would guess wrong where segments differ.
RAGGED_HOST_DEVICE constexpr std::int64_t rows_per_unit(const Tile& tile, std::int64_t q_len,
                                                        std::int64_t units) {
  return round_up(divide_up(q_len, units), tile.q_rows);
}

// Query rows that a tile computes for the `rows` >= 1 rows that are left of its unit.
RAGGED_HOST_DEVICE constexpr std::int64_t rows_computed(const Tile& tile, std::int64_t rows) {
  if (rows >= tile.q_rows || tile.row_step == 0) return tile.q_rows;
  const std::int64_t stepped = round_up(rows, tile.row_step);
  return stepped < tile.q_rows ? stepped : tile.q_rows;
}

// Keys that a tile computes for each of its rows, where the row that sees most sees `keys`.
RAGGED_HOST_DEVICE constexpr std::int64_t keys_computed(const Tile& tile, std::int64_t keys) {
  return round_up(keys, tile.key_step == 0 ? tile.kv_rows : tile.key_step);
}

}  // namespace ragged
