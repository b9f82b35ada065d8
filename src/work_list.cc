#include "work_list.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace ragged {

const WorkList::Cut& WorkList::cut(std::int64_t q_len, std::int64_t kv_len) noexcept {
  if (q_len == cut_.q_len && kv_len == cut_.kv_len) return cut_;
  cut_.q_len = q_len;
  cut_.kv_len = kv_len;
  cut_.rule = tile_rule(tiles_, q_len, kv_len);
  const Tile& tile = tiles_.rules[cut_.rule].tile;
  cut_.num_units = units_of(tile, q_len);
  cut_.unit_rows = rows_per_unit(tile, q_len, cut_.num_units);
  cut_.last_row = (cut_.num_units - 1) * cut_.unit_rows;
  cut_.last_bucket = bucket(cut_, cut_.last_row, q_len - cut_.last_row);
  if (rows_alike_) cut_.whole_bucket = bucket(cut_, 0, cut_.unit_rows);
  return cut_;
}

// Buckets run from the highest cost to the lowest. A row costs its visible keys, and one more for
// its own reading and writing, so the cost is at least 1.
std::size_t WorkList::bucket(const Cut& cut, std::int64_t row, std::int64_t rows) const noexcept {
  constexpr int kDropped = 52 - 3;  // mantissa bits below an eighth
  constexpr std::uint64_t kLowest = std::bit_cast<std::uint64_t>(1.0) >> kDropped;
  const double cost =
      visible_scores(mask_, row, row + rows, cut.q_len, cut.kv_len) + static_cast<double>(rows);
  const std::uint64_t key = (std::bit_cast<std::uint64_t>(cost) >> kDropped) - kLowest;
  return kBuckets - 1 - std::min<std::size_t>(key, kBuckets - 1);
}

// Calls each(row_begin, rows, bucket) for the segment's units in row order.
template <typename Each>
void WorkList::for_units(const Cut& cut, Each&& each) const noexcept {
  for (std::int64_t row = 0; row < cut.last_row; row += cut.unit_rows) {
    each(row, cut.unit_rows, rows_alike_ ? cut.whole_bucket : bucket(cut, row, cut.unit_rows));
  }
  each(cut.last_row, cut.q_len - cut.last_row, cut.last_bucket);
}

std::int64_t WorkList::count(const StepLayouts& layouts) noexcept {
  std::int64_t total = 0;
  for_segments(layouts, [&](std::int64_t, std::int64_t q_len, std::int64_t kv_len) {
    const Cut& segment = cut(q_len, kv_len);
    total += segment.num_units;
    if (total > kMaxUnits) return;
    if (rows_alike_) {
      histogram_[segment.whole_bucket] += segment.num_units - 1;
      ++histogram_[segment.last_bucket];
      return;
    }
    for_units(segment, [&](std::int64_t, std::int64_t, std::size_t at) { ++histogram_[at]; });
  });
  return total;
}

void WorkList::place(const StepLayouts& layouts, WorkUnit* units) noexcept {
  // Counts become the place of each bucket's first unit.
  std::int64_t next = 0;
  for (std::int64_t& entry : histogram_) {
    const std::int64_t here = next;
    next += std::exchange(entry, here);
  }
  for_segments(layouts, [&](std::int64_t segment, std::int64_t q_len, std::int64_t kv_len) {
    const Cut& how = cut(q_len, kv_len);
    for_units(how, [&](std::int64_t row, std::int64_t rows, std::size_t at) {
      units[histogram_[at]++] = {row, static_cast<std::int32_t>(rows), how.rule, segment};
    });
  });
}

}  // namespace ragged
