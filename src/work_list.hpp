#pragma once

// The work list of a step: every unit of every segment, by falling cost, without a comparison. The
// lengths are walked twice: once to count the units of each bucket of cost, once to write each unit
// at its place. Between the two, a note of 16 bits on each segment spares most of the arithmetic.

#include <array>
#include <cstdint>

#include <ragged/plan.hpp>

#include "cut.hpp"
#include "visible.hpp"

namespace ragged {

// A list of 2^26 units takes 1.5 GiB; a step beyond it is refused rather than swapped.
inline constexpr std::int64_t kMaxUnits = std::int64_t{1} << 26;

// Calls each(segment, q_len, kv_len) for the segments that have rows, in order.
template <typename Each>
void for_segments(const StepLayouts& layouts, Each&& each) {
  const std::int64_t* q_begin = layouts.q.begins();
  const std::int64_t* q_end = layouts.q.ends();
  const std::int64_t* kv_begin = layouts.keys().begins();
  const std::int64_t* kv_end = layouts.keys().ends();
  const bool prefixed = layouts.prefix.num_segments() > 0;
  for (std::int64_t i = 0; i < layouts.q.num_segments(); ++i) {
    if (q_end[i] == q_begin[i]) continue;
    const std::int64_t kv_len = kv_end[i] - kv_begin[i] + (prefixed ? layouts.prefix.length(i) : 0);
    each(i, q_end[i] - q_begin[i], kv_len);
  }
}

// Units of each rule. O(segments), whatever their lengths.
using RuleUnits = std::array<std::int64_t, kMaxTileRules>;
RuleUnits count_units(const TileTable& tiles, const StepLayouts& layouts) noexcept;

// Keys of all segments, prefix and fresh together.
inline std::int64_t total_kv_tokens(const StepLayouts& layouts) noexcept {
  return layouts.keys().total_tokens() + layouts.prefix.total_tokens();
}

class WorkList {
 public:
  // `tiles` outlives this object.
  WorkList(const Mask& mask, const TileTable& tiles)
      : mask_(mask), rows_alike_(!mask.causal && mask.block_size == 0), tiles_(tiles) {}

  // Units of the step, and a note on each segment in [notes, notes + num_segments). A count above
  // kMaxUnits may be short, but is above it.
  std::int64_t count(const StepLayouts& layouts, std::uint16_t* notes) noexcept;
  // Writes the units that count() counted to [units, units + count). In each bucket of cost they
  // keep the order of segments and rows. Call once, with the layouts and the notes of count().
  void place(const StepLayouts& layouts, const std::uint16_t* notes, WorkUnit* units) noexcept;

 private:
  // How a segment of several units is cut.
  struct Cut {
    std::int64_t num_units = 0;
    std::int64_t unit_rows = 0;
    std::int64_t last_row = 0;       // where the last unit begins; it holds the rest
    std::uint32_t whole_bucket = 0;  // of every unit but the last, where rows are alike
  };
  [[nodiscard]] Cut cut(const Tile& tile, std::int64_t q_len, std::int64_t kv_len) const noexcept;
  // Bucket of the unit of rows [row, row + rows) of a segment.
  [[nodiscard]] std::uint32_t bucket(std::int64_t row, std::int64_t rows, std::int64_t q_len,
                                     std::int64_t kv_len) const noexcept;

  // Falling cost in steps of an eighth: 128 powers of two, three bits of mantissa. A finer order
  // would not shorten a run.
  static constexpr int kBucketBits = 10;
  static constexpr std::uint32_t kBuckets = 1U << kBucketBits;
  // A note: the bucket of the segment's last unit, the rule, and kSeveral where it is not the only
  // unit, from the lowest bit up.
  static constexpr std::uint32_t kSeveral = 1U << 15;
  static_assert(std::uint32_t{kMaxTileRules} << kBucketBits <= kSeveral);

  Mask mask_;
  bool rows_alike_;  // every row of a segment sees the same keys, so whole units cost the same
  const TileTable& tiles_;
  std::array<std::uint32_t, kBuckets> histogram_{};
};

}  // namespace ragged
