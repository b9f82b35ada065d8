#pragma once

// How a step's table lies in memory, and the same table made on the host.

#include <cstddef>
#include <cstdint>

#include "device/step_args.hpp"

namespace ragged::device {

// Words that the prologue's blocks meet in: units of each bucket, the next place of each, and a few
// sums.
inline constexpr std::int64_t kSharedWords = 2 * 2048 + 16;

// Work items of a step: kernels count them, and a few rounds more, in 31 bits.
inline constexpr std::int64_t kMostItems = std::int64_t{1} << 29;

// What a table holds at most.
struct TableShape {
  std::int64_t max_segments = 0;
  std::int64_t max_units = 0;    // units of rows
  std::int64_t max_entries = 0;  // units, and pieces of keys that run side by side
};

// The shape that holds every step within these bounds. `bounded`: total_tokens is more than a
// guess; otherwise the table is made for 2^19 units beyond one for each segment, and a step of more
// is a fault. Pure. Throws out_of_range where its items would be more than kMostItems.
TableShape table_shape(const TileTable& tiles, std::int64_t num_segments, std::int64_t total_tokens,
                       bool bounded, std::int64_t partial_slots, std::int32_t head_groups);

// Byte offsets from the table's start, which is aligned to 256.
struct TableLayout {
  std::size_t units_at = 0;
  std::size_t grants_at = 0;
  std::size_t shared_at = 0;
  std::size_t words_at = 0;  // offsets that came from the host, int32
  std::int64_t num_words = 0;
  std::size_t bytes = 0;
};
TableLayout table_layout(const TableShape& shape) noexcept;
// Where the units lie in any table.
std::size_t units_at() noexcept;

// Points the arguments at their places in a table.
void place_table(StepArgs& args, const TableLayout& layout, void* table) noexcept;

// What the prologue does, on the host: every pointer of `args` is of host memory. The units of a
// bucket come in the order of segments and rows.
void make_table(const StepArgs& args);

}  // namespace ragged::device
