// Which tiles a problem gets, what the build lacks, and how the workspace lies: pure functions.

#include <algorithm>
#include <string>

#include "backends/sm80/built.hpp"
#include "backends/sm80/kernels.hpp"
#include "backends/sm80/shapes.hpp"

namespace ragged::sm80 {
namespace {

constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();

// Blocks of an SM that may take split keys in turn, each with a slot of its own: as many as fit.
constexpr int turn_blocks(int dim) { return dim <= 64 ? 4 : 2; }
// Slots for pieces side by side: with more every SM is busy for several rounds; and 64 MiB hold
// them beside those of the blocks.
constexpr std::int64_t kUsefulSlots = 16;  // of an SM
constexpr std::int64_t kSlotsBytes = 40 << 20;

// Query heads of one key head that share a tile: they share its keys. The largest divisor of the
// group up to 16, so that tiles of 64 rows hold several tokens.
int shared_heads(int group) {
  for (int heads = std::min(group, 16); heads > 1; --heads) {
    if (group % heads == 0) return heads;
  }
  return 1;
}

Tile tile(Variant variant, int rows, int row_step, int keys, int heads, int split_keys) {
  Tile t;
  t.heads = heads;
  t.q_rows = rows / heads;
  t.unit_rows = t.q_rows;
  t.kv_rows = keys;
  t.variant = static_cast<std::int32_t>(variant);
  t.split_keys = split_keys;
  t.row_step = std::max(1, row_step / heads);
  return t;
}

void add(TileTable& table, std::int64_t q_length, std::int64_t kv_length, const Tile& tile) {
  TileRule& rule = table.rules[table.num_rules++];
  rule.max_q_length = q_length;
  rule.max_kv_length = kv_length;
  rule.tile = tile;
}

std::int64_t whole_lines(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Of the rules that split keys; 0 where none does.
std::int64_t largest_slot(const TileTable& table, const Problem& problem) {
  const int dim = built_dim(problem.dtype, problem.head_dim);
  std::int64_t bytes = 0;
  for (int i = 0; i < table.num_rules; ++i) {
    const Tile& t = table.rules[i].tile;
    if (t.split_keys == 0) continue;
    bytes = std::max(bytes, slot_bytes(walk_shape(static_cast<Variant>(t.variant), dim), dim));
  }
  return whole_lines(bytes);
}

}  // namespace

std::string declines(const Problem& problem) {
  const auto dtype = std::find(std::begin(kBuiltDTypes), std::end(kBuiltDTypes), problem.dtype);
  if (dtype == std::end(kBuiltDTypes)) {
    std::string built;
    for (const DType one : kBuiltDTypes) {
      built += (built.empty() ? "" : ", ") + std::string(to_string(one));
    }
    return "dtype " + std::string(to_string(problem.dtype)) + ": this build has kernels for " +
           built;
  }
  if (problem.head_dim % 8 != 0) {
    return "head_dim " + std::to_string(problem.head_dim) + ": takes multiples of 8";
  }
  if (built_dim(problem.dtype, problem.head_dim) == 0) {
    std::string built;
    for (const int dim : kBuiltDims) built += (built.empty() ? "" : ", ") + std::to_string(dim);
    return "head_dim " + std::to_string(problem.head_dim) +
           ": this build has kernels for head dims up to the largest of " + built;
  }
  return {};
}

TileTable tiles(const Problem& problem, const DeviceFacts& /*device*/) {
  TileTable table;
  const int heads = shared_heads(problem.group());
  if (problem.dtype == DType::fp32) {
    add(table, kAnyLength, kAnyLength, tile(Variant::fp32, kPlainRows, 4, kPlainKeys, heads, 0));
    return table;
  }
  const int dim = built_dim(problem.dtype, problem.head_dim);
  // One pass over all keys needs no masks where every row sees every key.
  if (!problem.causal && problem.kind != AttentionKind::block_causal && dim <= kMaxShortDim) {
    Tile t = tile(Variant::short64, short64_shape(dim).rows(), 16, 64, heads, 0);
    t.key_step = 16;
    add(table, kAnyLength, 64, t);
    t = tile(Variant::short128, short128_shape(dim).rows(), 16, 128, heads, 0);
    t.key_step = 16;
    add(table, kAnyLength, 128, t);
  }
  const WalkShape few = few_shape(dim);
  const WalkShape many = many_shape(dim);
  const auto walk = [&](Variant variant, const WalkShape& shape, int split_keys) {
    return tile(variant, shape.rows(), 16 * shape.row_tiles, shape.keys, heads, split_keys);
  };
  // Few rows over long keys leave most SMs idle unless the keys are split. A piece pays for its
  // partial results: it has eight tiles of keys, or sixteen where there are many pieces.
  const int step = 8 * many.keys;
  add(table, 64, kAnyLength, walk(Variant::few, few, step));
  if (has_brief(dim)) add(table, kAnyLength, kMostBriefKeys, walk(Variant::brief, kBriefShape, 0));
  add(table, 128, 8 * step, walk(Variant::many, many, step));
  add(table, 128, kAnyLength, walk(Variant::many, many, 2 * step));
  add(table, 512, kAnyLength, walk(Variant::many, many, 8 * step));
  add(table, kAnyLength, kAnyLength, walk(Variant::many, many, 0));
  return table;
}

RuleGroup rule_group(const TileTable& table, int first) {
  RuleGroup group{first, first, table.rules[first].tile.split_keys > 0};
  while (group.last + 1 < table.num_rules &&
         table.rules[group.last + 1].tile.variant == table.rules[first].tile.variant) {
    ++group.last;
    group.splits_keys = group.splits_keys || table.rules[group.last].tile.split_keys > 0;
  }
  return group;
}

Workspace workspace(const TileTable& table, const Problem& problem, const DeviceFacts& device,
                    std::int64_t slots) {
  Workspace w;
  const std::int64_t bytes = largest_slot(table, problem);
  if (bytes == 0) return w;
  w.slots = slots;
  const int dim = built_dim(problem.dtype, problem.head_dim);
  w.turn_slots = std::int64_t{turn_blocks(dim)} * device.sm_count;
  w.slot_bytes = static_cast<std::size_t>(bytes);
  w.zeroed_bytes = static_cast<std::size_t>(whole_lines(4 * slots));
  w.partials_at = w.zeroed_bytes;
  w.bytes = w.partials_at + static_cast<std::size_t>(slots + w.turn_slots) * w.slot_bytes;
  return w;
}

std::int64_t useful_slots(const TileTable& table, const Problem& problem,
                          const DeviceFacts& device) {
  const std::int64_t bytes = largest_slot(table, problem);
  return bytes == 0 ? 0 : std::min(kUsefulSlots * device.sm_count, kSlotsBytes / bytes);
}

}  // namespace ragged::sm80
