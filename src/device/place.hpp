#pragma once

// How a segment becomes the units of a table: pure functions that the prologue runs on the device
// and tests run on the host. A segment's units depend on its own lengths alone, by the rule of
// cut.hpp; whether pieces of its keys run side by side is the only thing that its neighbours have a
// say in, and it changes no bit of a result.

#include <cstdint>

#include "cut.hpp"
#include "device/step_args.hpp"

namespace ragged::device {

// Entry i of an array of offsets.
RAGGED_HOST_DEVICE inline std::int64_t read_entry(const OffsetsArg& offsets, const void* array,
                                                  std::int64_t i) {
  const std::int64_t at = i * offsets.stride;
  if (offsets.is_int64) return static_cast<const std::int64_t*>(array)[at];
  return static_cast<const std::int32_t*>(array)[at];
}

// A segment as its offsets say: lengths, and where its rows begin.
struct Span {
  std::int32_t q_begin = 0;
  std::int32_t q_len = 0;
  std::int32_t kv_begin = 0;
  std::int32_t kv_len = 0;  // prefix and fresh together
  std::int32_t prefix_begin = 0;
  std::int32_t prefix_len = 0;
};

// Precondition: the offsets are right.
RAGGED_HOST_DEVICE inline Span read_span(const StepArgs& args, std::int64_t i) {
  Span span;
  const std::int64_t q_begin = read_entry(args.q, args.q.begins, i);
  span.q_begin = static_cast<std::int32_t>(q_begin);
  span.q_len = static_cast<std::int32_t>(read_entry(args.q, args.q.ends, i) - q_begin);
  span.kv_begin = span.q_begin;
  span.kv_len = span.q_len;
  if (args.kv.begins != nullptr) {
    const std::int64_t begin = read_entry(args.kv, args.kv.begins, i);
    span.kv_begin = static_cast<std::int32_t>(begin);
    span.kv_len = static_cast<std::int32_t>(read_entry(args.kv, args.kv.ends, i) - begin);
  }
  if (args.prefix.begins != nullptr) {
    const std::int64_t begin = read_entry(args.prefix, args.prefix.begins, i);
    span.prefix_begin = static_cast<std::int32_t>(begin);
    span.prefix_len =
        static_cast<std::int32_t>(read_entry(args.prefix, args.prefix.ends, i) - begin);
    span.kv_len += span.prefix_len;
  }
  return span;
}

// How a segment is cut: `units` ranges of rows, each walking its keys in `chunks` pieces.
struct SegmentCut {
  std::int32_t rule = 0;
  std::int32_t units = 0;      // 0 for a segment without rows
  std::int32_t unit_rows = 0;  // of every unit but the last, which holds the rest
  std::int32_t chunks = 1;

  // Slots of partial results that running all pieces side by side takes; 0 where nothing is split.
  [[nodiscard]] RAGGED_HOST_DEVICE std::int64_t slots(std::int32_t head_groups) const {
    return chunks > 1 ? static_cast<std::int64_t>(units) * chunks * head_groups : 0;
  }
};

RAGGED_HOST_DEVICE inline SegmentCut cut_segment(const TileTable& tiles, const Span& span) {
  SegmentCut cut;
  if (span.q_len == 0) return cut;
  cut.rule = tile_rule(tiles, span.q_len, span.kv_len);
  const Tile& tile = tiles.rules[cut.rule].tile;
  const std::int64_t units = units_of(tile, span.q_len);
  cut.units = static_cast<std::int32_t>(units);
  cut.unit_rows = static_cast<std::int32_t>(rows_per_unit(tile, span.q_len, units));
  if (tile.split_keys > 0 && span.kv_len > tile.split_keys) {
    cut.chunks = static_cast<std::int32_t>(divide_up(span.kv_len, tile.split_keys));
  }
  return cut;
}

// Entries of the table that a segment takes. `slot`: its first slot of partial results, or -1 where
// each of its units takes all pieces in turn.
RAGGED_HOST_DEVICE inline std::int64_t entries_of(const SegmentCut& cut, std::int32_t slot) {
  return slot >= 0 ? static_cast<std::int64_t>(cut.units) * cut.chunks : cut.units;
}

// Entry i of [0, entries_of): units in the order of rows, the pieces of each in the order of keys.
RAGGED_HOST_DEVICE inline Unit make_unit(const Span& span, const SegmentCut& cut, std::int32_t slot,
                                         std::int32_t head_groups, std::int32_t segment,
                                         std::int32_t i) {
  Unit unit;
  const bool beside = slot >= 0;
  const std::int32_t row = (beside ? i / cut.chunks : i) * cut.unit_rows;
  const std::int32_t left = span.q_len - row;
  unit.q_begin = span.q_begin;
  unit.q_len = span.q_len;
  unit.row_begin = row;
  unit.rows = left < cut.unit_rows ? left : cut.unit_rows;
  unit.kv_begin = span.kv_begin;
  unit.kv_len = span.kv_len;
  unit.prefix_begin = span.prefix_begin;
  unit.prefix_len = span.prefix_len;
  unit.chunk = beside ? i % cut.chunks : 0;
  unit.num_chunks = cut.chunks;
  unit.partial = beside ? slot + i * head_groups : -1;
  unit.segment = segment;
  return unit;
}

// Buckets of one rule run from the highest cost to the lowest, in steps of a quarter: a unit costs
// what its rows see, and one more a row for reading and writing it. A finer order would not shorten
// a run. The units of a bucket come in any order.
inline constexpr std::int32_t kRuleBuckets = 256;
inline constexpr std::int32_t kBuckets = kRuleBuckets * kMaxTileRules;

RAGGED_HOST_DEVICE inline std::int32_t highest_bit(std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  return 63 - __clzll(static_cast<long long>(value));
#else
  return 63 - __builtin_clzll(value);
#endif
}

RAGGED_HOST_DEVICE inline std::int32_t bucket_of(const Mask& mask, const SegmentCut& cut,
                                                 const Unit& unit) {
  const double scores =
      visible_scores(mask, unit.row_begin, unit.row_begin + unit.rows, unit.q_len, unit.kv_len);
  auto cost = static_cast<std::uint64_t>(scores) + static_cast<std::uint64_t>(unit.rows);
  if (unit.partial >= 0) cost = cost / static_cast<std::uint32_t>(unit.num_chunks) + 1;
  const std::int32_t bit = highest_bit(cost);
  const auto quarter =
      static_cast<std::int32_t>((bit >= 2 ? cost >> (bit - 2) : cost << (2 - bit)) & 3U);
  return cut.rule * kRuleBuckets + kRuleBuckets - 1 - (4 * bit + quarter);
}

// Splitting keys pays where units alone leave blocks idle: with as many items as there are slots,
// enough of them are busy.
RAGGED_HOST_DEVICE inline bool may_split(const StepArgs& args, std::int64_t num_units) {
  return args.partial_slots > 0 && num_units * args.head_groups < args.partial_slots;
}

// Whether any rule splits keys.
RAGGED_HOST_DEVICE inline bool splits_keys(const TileTable& tiles) {
  for (std::int32_t i = 0; i < tiles.num_rules; ++i) {
    if (tiles.rules[i].tile.split_keys > 0) return true;
  }
  return false;
}

// The order in which faults are named: arguments as they were given, entries as they lie, and
// ceilings after all of those, as for offsets on the host. kNoFault is above all.
inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};
inline constexpr std::uint64_t kBeyond = std::uint64_t{1} << 40;
RAGGED_HOST_DEVICE inline std::uint64_t fault_key(std::int32_t argument, std::int64_t index,
                                                  bool beyond) {
  return (beyond ? kBeyond : 0) | static_cast<std::uint64_t>(argument) << 36 |
         static_cast<std::uint64_t>(index);
}

// What is wrong with the end of segment i, or with the start of the first; kNoFault if nothing is.
// Entries are read one at a time, so that none beyond the array is.
RAGGED_HOST_DEVICE inline std::uint64_t fault_at(const OffsetsArg& offsets, std::int32_t argument,
                                                 std::int64_t i, std::int64_t num_segments) {
  if (offsets.begins == nullptr || offsets.checked) return kNoFault;
  const std::int64_t begin = read_entry(offsets, offsets.begins, i);
  if (i == 0 && begin != 0) return fault_key(argument, 0, false);
  if (i == num_segments) return begin > offsets.bound ? fault_key(argument, i, true) : kNoFault;
  const std::int64_t end = read_entry(offsets, offsets.begins, i + 1);
  return end < begin ? fault_key(argument, i + 1, false) : kNoFault;
}

// The first of the faults that entry i of any argument shows, for i in [0, num_segments].
RAGGED_HOST_DEVICE inline std::uint64_t first_fault(const StepArgs& args, std::int64_t i) {
  std::uint64_t first = fault_at(args.q, 0, i, args.num_segments);
  const std::uint64_t kv = fault_at(args.kv, 1, i, args.num_segments);
  const std::uint64_t prefix = fault_at(args.prefix, 2, i, args.num_segments);
  first = kv < first ? kv : first;
  return prefix < first ? prefix : first;
}

// The header of a step at fault: no units, and what is wrong.
RAGGED_HOST_DEVICE inline void describe_fault(const StepArgs& args, std::uint64_t key,
                                              TableHeader& header) {
  const auto argument = static_cast<std::int32_t>((key >> 36) & 3U);
  const auto index = static_cast<std::int64_t>(key & ((std::uint64_t{1} << 36) - 1));
  const OffsetsArg& offsets = argument == 0 ? args.q : (argument == 1 ? args.kv : args.prefix);
  header.fault_argument = argument;
  header.fault_index = static_cast<std::int32_t>(index);
  header.fault_value = read_entry(offsets, offsets.begins, index);
  if ((key & kBeyond) != 0) {
    header.fault = OffsetFault::beyond_rows;
    header.fault_bound = offsets.bound;
  } else if (index == 0) {
    header.fault = OffsetFault::first_not_zero;
    header.fault_bound = 0;
  } else {
    header.fault = OffsetFault::falls;
    header.fault_bound = read_entry(offsets, offsets.begins, index - 1);
  }
}

// The same for a step of more units than the table holds.
RAGGED_HOST_DEVICE inline void describe_overflow(const StepArgs& args, std::int64_t num_units,
                                                 TableHeader& header) {
  header.fault = OffsetFault::too_many_units;
  header.fault_value = num_units;
  header.fault_bound = args.max_units;
}

}  // namespace ragged::device
