#include "device/step.hpp"

#include <algorithm>

#include "cut.hpp"

namespace ragged::device {
namespace {

// Arrays begin at 16 bytes.
std::int64_t array_words(std::int64_t entries) noexcept { return round_up(entries, 4); }

std::int64_t layout_words(const Layout& layout) noexcept {
  if (!layout.known()) return 0;
  const std::int64_t segments = layout.num_segments();
  return layout.has_gaps() ? 2 * array_words(segments) : array_words(segments + 1);
}

// Writes arrays one behind the other.
class Writer {
 public:
  Writer(std::span<std::int32_t> words, std::int32_t* words_at) : words_(words), at_(words_at) {}

  OffsetsArg put(const Layout& layout) {
    OffsetsArg arg;
    const std::int64_t segments = layout.num_segments();
    if (layout.has_gaps()) {
      arg.begins = put(layout.begins(), segments);
      arg.ends = put(layout.ends(), segments);
    } else {
      const std::int32_t* const offsets = put(layout.begins(), segments + 1);
      arg.begins = offsets;
      arg.ends = offsets + 1;
    }
    return arg;
  }

 private:
  std::int32_t* put(const std::int64_t* values, std::int64_t count) {
    std::int32_t* const here = words_.data() + used_;
    std::transform(values, values + count, here,
                   [](std::int64_t value) { return static_cast<std::int32_t>(value); });
    std::int32_t* const at = at_ + used_;
    std::fill(here + count, here + array_words(count), 0);
    used_ += array_words(count);
    return at;
  }

  std::span<std::int32_t> words_;
  std::int32_t* at_;
  std::int64_t used_ = 0;
};

OffsetsArg unread(const IndexView& view, std::int64_t bound) {
  OffsetsArg arg;
  const std::int64_t bytes = view.type == IndexType::int64 ? 8 : 4;
  arg.begins = view.data;
  arg.ends = static_cast<const std::byte*>(view.data) + view.stride * bytes;
  arg.stride = view.stride;
  arg.is_int64 = view.type == IndexType::int64;
  arg.checked = false;
  arg.bound = bound;
  return arg;
}

}  // namespace

std::int64_t count_words(const StepLayouts& layouts) noexcept {
  std::int64_t words = layout_words(layouts.q);
  if (!layouts.kv_is_q) words += layout_words(layouts.kv);
  if (layouts.prefix.num_segments() > 0) words += layout_words(layouts.prefix);
  return words;
}

StepArgs make_step(const Plan& plan, const StageArguments& arguments, const StepShape& shape,
                   std::span<std::int32_t> words, std::int32_t* words_at) {
  const StepLayouts& layouts = plan.layouts;
  Writer writer(words, words_at);
  const auto put = [&](const Layout& layout, const IndexView& view) {
    return layout.known() ? writer.put(layout) : unread(view, layout.max_tokens());
  };
  StepArgs args;
  args.q = put(layouts.q, arguments.q);
  if (!layouts.kv_is_q) args.kv = put(layouts.kv, arguments.kv);
  if (layouts.prefix.num_segments() > 0) args.prefix = put(layouts.prefix, arguments.prefix);
  args.mask.causal = plan.problem.causal;
  args.mask.block_size =
      plan.problem.kind == AttentionKind::block_causal ? plan.problem.block_size : 0;
  args.tiles = plan.tiles;
  args.num_segments = static_cast<std::int32_t>(layouts.q.num_segments());
  args.head_groups = static_cast<std::int32_t>(plan.items_per_unit);
  args.max_units = shape.table.max_units;
  args.partial_slots = shape.partial_slots;
  place_table(args, table_layout(shape.table), arguments.table.data);
  args.report = static_cast<FaultReport*>(arguments.report);
  args.number = arguments.number;
  args.zeroed = static_cast<std::uint32_t*>(arguments.workspace.data);
  args.num_zeroed = static_cast<std::int64_t>(shape.zeroed_bytes / sizeof(std::uint32_t));
  return args;
}

}  // namespace ragged::device
