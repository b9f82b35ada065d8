#include "work_list.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace ragged {

RuleUnits count_units(const TileTable& tiles, const StepLayouts& layouts) noexcept {
  // Rows beyond a double's 53 bits are refused before; of an integer n below 2^50, n / d rounded
  // down is (n + 0.5) * (1 / d) cut off: a multiplication in place of a division for each segment.
  std::array<double, kMaxTileRules> unit_rows{};
  std::array<double, kMaxTileRules> per_row{};
  for (std::size_t i = 0; i < unit_rows.size(); ++i) {
    unit_rows[i] = tiles.rules[i].tile.unit_rows;
    per_row[i] = 1.0 / unit_rows[i];
  }
  RuleUnits total{};
  for_segments(layouts, [&](std::int64_t, std::int64_t q_len, std::int64_t kv_len) {
    const auto rule = static_cast<std::size_t>(tile_rule(tiles, q_len, kv_len));
    const double rows = static_cast<double>(q_len) + unit_rows[rule] - 0.5;
    total[rule] += static_cast<std::int64_t>(rows * per_row[rule]);
  });
  return total;
}

// Buckets run from the highest cost to the lowest. A row costs its visible keys, and one more for
// its own reading and writing, so the cost is at least 1.
inline std::uint32_t WorkList::bucket(std::int64_t row, std::int64_t rows, std::int64_t q_len,
                                      std::int64_t kv_len) const noexcept {
  constexpr int kDropped = 52 - 3;  // mantissa bits below an eighth
  constexpr std::uint64_t kLowest = std::bit_cast<std::uint64_t>(1.0) >> kDropped;
  const double cost =
      visible_scores(mask_, row, row + rows, q_len, kv_len) + static_cast<double>(rows);
  const std::uint64_t key = (std::bit_cast<std::uint64_t>(cost) >> kDropped) - kLowest;
  return kBuckets - 1 - static_cast<std::uint32_t>(std::min<std::uint64_t>(key, kBuckets - 1));
}

inline WorkList::Cut WorkList::cut(const Tile& tile, std::int64_t q_len,
                                   std::int64_t kv_len) const noexcept {
  Cut cut;
  cut.num_units = units_of(tile, q_len);
  cut.unit_rows = rows_per_unit(tile, q_len, cut.num_units);
  cut.last_row = (cut.num_units - 1) * cut.unit_rows;
  if (rows_alike_) cut.whole_bucket = bucket(0, cut.unit_rows, q_len, kv_len);
  return cut;
}

std::int64_t WorkList::count(const StepLayouts& layouts, std::uint16_t* notes) noexcept {
  std::int64_t total = 0;
  // Neighbours are often alike: the note on the last segment of one unit serves them all.
  std::int64_t last_q_len = -1;
  std::int64_t last_kv_len = -1;
  std::uint32_t note = 0;
  for_segments(layouts, [&](std::int64_t segment, std::int64_t q_len, std::int64_t kv_len) {
    if (q_len != last_q_len || kv_len != last_kv_len) {
      const std::int32_t rule = tile_rule(tiles_, q_len, kv_len);
      const Tile& tile = tiles_.rules[rule].tile;
      note = static_cast<std::uint32_t>(rule) << kBucketBits;
      if (q_len > tile.unit_rows) {
        const Cut several = cut(tile, q_len, kv_len);
        total += several.num_units;
        if (total > kMaxUnits) return;
        const std::uint32_t last =
            bucket(several.last_row, q_len - several.last_row, q_len, kv_len);
        ++histogram_[last];
        if (rows_alike_) {
          histogram_[several.whole_bucket] += static_cast<std::uint32_t>(several.num_units - 1);
        } else {
          for (std::int64_t row = 0; row < several.last_row; row += several.unit_rows) {
            ++histogram_[bucket(row, several.unit_rows, q_len, kv_len)];
          }
        }
        notes[segment] = static_cast<std::uint16_t>(note | last | kSeveral);
        last_q_len = -1;
        return;
      }
      note |= bucket(0, q_len, q_len, kv_len);
      last_q_len = q_len;
      last_kv_len = kv_len;
    }
    ++total;
    ++histogram_[note & (kBuckets - 1)];
    notes[segment] = static_cast<std::uint16_t>(note);
  });
  return total;
}

void WorkList::place(const StepLayouts& layouts, const std::uint16_t* notes,
                     WorkUnit* units) noexcept {
  // Counts become the place of each bucket's first unit.
  std::uint32_t next = 0;
  for (std::uint32_t& entry : histogram_) {
    const std::uint32_t here = next;
    next += std::exchange(entry, here);
  }
  for_segments(layouts, [&](std::int64_t segment, std::int64_t q_len, std::int64_t kv_len) {
    const std::uint32_t note = notes[segment];
    const auto rule = static_cast<std::int32_t>((note & (kSeveral - 1)) >> kBucketBits);
    const auto put = [&](std::int64_t row, std::int64_t rows, std::uint32_t at) {
      units[histogram_[at]++] = {row, static_cast<std::int32_t>(rows), rule, segment};
    };
    std::int64_t row = 0;
    if ((note & kSeveral) != 0) {
      const Cut several = cut(tiles_.rules[rule].tile, q_len, kv_len);
      const auto rows = static_cast<std::int32_t>(several.unit_rows);
      if (rows_alike_) {
        WorkUnit* to = units + histogram_[several.whole_bucket];
        histogram_[several.whole_bucket] += static_cast<std::uint32_t>(several.num_units - 1);
        for (; row < several.last_row; row += rows) *to++ = {row, rows, rule, segment};
      }
      for (; row < several.last_row; row += rows) {
        put(row, rows, bucket(row, rows, q_len, kv_len));
      }
    }
    put(row, q_len - row, note & (kBuckets - 1));
  });
}

}  // namespace ragged
