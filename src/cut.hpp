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

// a / b rounded up, for a >= 0 and b >= 1. Lengths nearly always fit 32 bits, whose division takes
// half the time on a CPU and a fraction of it on a GPU.
RAGGED_HOST_DEVICE constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 31) == 0) {
    const auto narrow = static_cast<std::uint32_t>(b);
    return (static_cast<std::uint32_t>(a) + narrow - 1) / narrow;
  }
  return a / b + (a % b != 0 ? 1 : 0);
}

// a rounded up to a multiple of step, for a >= 0 and step >= 1. Most steps are powers of two.
RAGGED_HOST_DEVICE constexpr std::int64_t round_up(std::int64_t a, std::int64_t step) {
  if ((step & (step - 1)) == 0) return (a + step - 1) & -step;
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

}  // namespace ragged
