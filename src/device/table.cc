#include "device/table.hpp"

#include <algorithm>
#include <array>

#include "device/place.hpp"

namespace ragged::device {
namespace {

static_assert(kSharedWords >= 2 * kBuckets + 16);

constexpr std::size_t kAlignment = 256;  // bytes; what device memory comes aligned to

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void report_fault(const StepArgs& args) {
  if (args.report == nullptr) return;
  FaultReport& report = *args.report;
  const TableHeader& header = *args.table;
  report.fault = header.fault;
  report.argument = header.fault_argument;
  report.index = header.fault_index;
  report.value = header.fault_value;
  report.bound = header.fault_bound;
  report.current = args.number;
  ++report.count;
}

// Calls each(segment, span, cut) for every segment.
template <typename Each>
void for_cuts(const StepArgs& args, Each&& each) {
  for (std::int32_t i = 0; i < args.num_segments; ++i) {
    const Span span = read_span(args, i);
    each(i, span, cut_segment(args.tiles, span));
  }
}

}  // namespace

TableShape table_shape(const TileTable& tiles, std::int64_t num_segments, std::int64_t total_tokens,
                       bool bounded, std::int64_t partial_slots, std::int32_t head_groups) {
  constexpr std::int64_t kGuess = std::int64_t{1} << 19;
  std::int64_t rows = tiles.rules[0].tile.unit_rows;
  for (std::int32_t i = 1; i < tiles.num_rules; ++i) {
    rows = std::min<std::int64_t>(rows, tiles.rules[i].tile.unit_rows);
  }
  TableShape shape;
  shape.max_segments = num_segments;
  shape.max_units = std::min(total_tokens, total_tokens / rows + num_segments);
  if (!bounded) shape.max_units = std::min(shape.max_units, num_segments + kGuess);
  shape.max_entries = shape.max_units + partial_slots / head_groups;
  if (shape.max_entries * head_groups > kMostItems) {
    throw Error(ErrorCode::out_of_range,
                "a step of " + std::to_string(num_segments) + " segments and " +
                    std::to_string(total_tokens) + " tokens may have " +
                    std::to_string(shape.max_entries * head_groups) +
                    " work items; on a GPU it has at most " + std::to_string(kMostItems));
  }
  return shape;
}

std::size_t units_at() noexcept { return aligned(sizeof(TableHeader)); }

TableLayout table_layout(const TableShape& shape) noexcept {
  const auto segments = static_cast<std::size_t>(shape.max_segments);
  TableLayout layout;
  layout.units_at = device::units_at();
  layout.grants_at =
      aligned(layout.units_at + static_cast<std::size_t>(shape.max_entries) * sizeof(Unit));
  layout.shared_at = aligned(layout.grants_at + segments * sizeof(std::int32_t));
  layout.words_at =
      aligned(layout.shared_at + static_cast<std::size_t>(kSharedWords) * sizeof(std::uint32_t));
  // At most four arrays, each of an entry more than segments and begun at 16 bytes.
  layout.num_words = 4 * round_up(shape.max_segments + 1, 4);
  layout.bytes =
      aligned(layout.words_at + static_cast<std::size_t>(layout.num_words) * sizeof(std::int32_t));
  return layout;
}

void place_table(StepArgs& args, const TableLayout& layout, void* table) noexcept {
  auto* const bytes = static_cast<std::byte*>(table);
  args.table = reinterpret_cast<TableHeader*>(bytes);
  args.units = reinterpret_cast<Unit*>(bytes + layout.units_at);
  args.grants = reinterpret_cast<std::int32_t*>(bytes + layout.grants_at);
  args.shared = reinterpret_cast<std::uint32_t*>(bytes + layout.shared_at);
}

void make_table(const StepArgs& args) {
  const bool was_at_fault = args.table->fault != OffsetFault::none;
  TableHeader& header = *args.table = TableHeader{};
  std::fill_n(args.zeroed, args.num_zeroed, 0U);
  std::uint64_t fault = kNoFault;
  for (std::int64_t i = 0; i <= args.num_segments; ++i) {
    fault = std::min(fault, first_fault(args, i));
  }
  if (fault != kNoFault) {
    describe_fault(args, fault, header);
    return report_fault(args);
  }
  std::int64_t num_units = 0;
  for_cuts(args, [&](std::int32_t, const Span&, const SegmentCut& cut) { num_units += cut.units; });
  if (num_units > args.max_units) {
    describe_overflow(args, num_units, header);
    return report_fault(args);
  }
  if (was_at_fault && args.report != nullptr) args.report->current = 0;
  header.num_segments = args.num_segments;

  const bool split = splits_keys(args.tiles) && may_split(args, num_units);
  std::int64_t taken = 0;
  const auto grant = [&](std::int32_t segment, const SegmentCut& cut) {
    const std::int64_t slots = cut.slots(args.head_groups);
    const bool granted = split && slots > 0 && taken + slots <= args.partial_slots;
    args.grants[segment] = granted ? static_cast<std::int32_t>(taken) : -1;
    if (granted) taken += slots;
  };
  std::array<std::int64_t, kBuckets> next{};
  const auto for_units = [&](auto&& each) {
    for_cuts(args, [&](std::int32_t segment, const Span& span, const SegmentCut& cut) {
      const std::int32_t slot = args.grants[segment];
      const std::int64_t entries = entries_of(cut, slot);
      for (std::int32_t i = 0; i < entries; ++i) {
        const Unit unit = make_unit(span, cut, slot, args.head_groups, segment, i);
        each(unit, static_cast<std::size_t>(bucket_of(args.mask, cut, unit)));
      }
    });
  };
  for_cuts(args, [&](std::int32_t i, const Span&, const SegmentCut& cut) { grant(i, cut); });
  for_units([&](const Unit&, std::size_t bucket) { ++next.at(bucket); });
  std::int64_t first = 0;
  for (std::int32_t rule = 0; rule < kMaxTileRules; ++rule) {
    header.first_unit[rule] = static_cast<std::int32_t>(first);
    for (std::int32_t bucket = 0; bucket < kRuleBuckets; ++bucket) {
      const std::int32_t at = rule * kRuleBuckets + bucket;
      std::int64_t& entry = next.at(static_cast<std::size_t>(at));
      const std::int64_t count = entry;
      entry = first;
      first += count;
    }
    header.num_units[rule] = static_cast<std::int32_t>(first) - header.first_unit[rule];
  }
  for_units([&](const Unit& unit, std::size_t bucket) { args.units[next.at(bucket)++] = unit; });
}

}  // namespace ragged::device
