#include <string>

#include "backends/sm90/builds.hpp"
#include "backends/sm90/kernels.hpp"

namespace ragged::sm90 {
namespace {

// A warpgroup's tile: rows of one product instruction.
constexpr int kTileRows = 64;

std::string built_head_dims() {
  std::string names;
  for (const LongBuild& build : kLongBuilds) {
    if (&build != long_build(build.head_dim)) continue;
    names += (names.empty() ? "" : ", ") + std::to_string(build.head_dim);
  }
  return names;
}

// Query heads of a key head that share a tile. Together they read each key once and leave fewer
// scores beyond the mask; but where units of all segments run at once (causal: they lie by cost),
// more keys are walked at the same time than the L2 cache holds.
//   bagel-flow (7 heads)          together 1388 us, alone 1437
//   chat-prefix-causal (7 heads)  together  342 us, alone  378
//   cosmos3-image (4 heads)       together   70 us, alone   72
//   causal-gqa (4 heads)          together 1907 us, alone 1585
int heads_together(const Problem& problem) {
  const int group = problem.group();
  if (group > kTileRows) return 1;
  return problem.kind == AttentionKind::self && problem.causal ? 1 : group;
}

// Few rows over long keys: not where keys are as many as rows, nor under a mask.
bool may_have_teams(const Problem& problem) {
  return (problem.kind == AttentionKind::cross || problem.kind == AttentionKind::prefixed) &&
         !problem.causal;
}

std::string aligned(const char* name, const device::TensorArg& tensor, bool one_head) {
  if (tensor.data == nullptr || tensor.tokens == 0) return {};
  constexpr std::int64_t kElements = 8;  // of 2 bytes, in 16 bytes
  const auto refuse = [&](const std::string& what) {
    return std::string(name) + "'s " + what + "; sm90 takes multiples of 16 bytes";
  };
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % 16 != 0) return refuse("base lies at " + std::to_string(address % 16) + " mod 16");
  if (tensor.tokens > 1 && (tensor.token_stride % kElements != 0 || tensor.token_stride <= 0)) {
    return refuse("token stride is " + std::to_string(tensor.token_stride) + " elements");
  }
  if (!one_head && (tensor.head_stride % kElements != 0 || tensor.head_stride <= 0)) {
    return refuse("head stride is " + std::to_string(tensor.head_stride) + " elements");
  }
  return {};
}

}  // namespace

std::string declines(const Problem& problem) {
  if (problem.dtype != DType::bf16 && problem.dtype != DType::fp16) {
    return "dtype must be bf16 or fp16; got " + std::string(to_string(problem.dtype));
  }
  if (long_build(problem.head_dim) == nullptr) {
    return "head_dim must be one of " + built_head_dims() + " in this build; got " +
           std::to_string(problem.head_dim);
  }
  if (problem.sm_scale <= 0.0) {
    return "sm_scale must be above 0; got " + std::to_string(problem.sm_scale);
  }
  return {};
}

std::string declines_tensors(const device::AttentionArgs& args) {
  const bool one_query_head = args.num_qo_heads == 1;
  const bool one_key_head = args.num_kv_heads == 1;
  for (std::string reason :
       {aligned("q", args.q, one_query_head), aligned("k", args.k, one_key_head),
        aligned("v", args.v, one_key_head), aligned("out", args.out, one_query_head),
        aligned("prefix_k", args.prefix_k, one_key_head),
        aligned("prefix_v", args.prefix_v, one_key_head)}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

Rules rules_from(const TileTable& table, int first) {
  const bool teams = first + 1 < table.num_rules &&
                     table.rules[first].tile.variant == table.rules[first + 1].tile.variant;
  return teams ? Rules{first + 1, first} : Rules{first, -1};
}

std::string kernel_of(const Tile& tile) {
  if (tile.variant == kShort) return "short";
  return "long " + std::to_string(tile.variant - kFirstLong + 1);
}

TileTable tiles(const Problem& problem, const DeviceFacts& /*device*/) {
  const int heads = heads_together(problem);
  TileTable table;
  const auto add = [&](int variant, int tiles, int keys, std::int64_t max_keys) -> Tile& {
    TileRule& rule = table.rules[table.num_rules++];
    rule.max_kv_length = max_keys;
    rule.tile.heads = heads;
    rule.tile.q_rows = kTileRows / heads;
    rule.tile.unit_rows = tiles * rule.tile.q_rows;
    rule.tile.kv_rows = keys;
    rule.tile.variant = variant;
    return rule.tile;
  };
  const ShortBuild* const short_keys = short_build(problem.head_dim);
  if (short_keys != nullptr && !problem.two_sources) {
    // The products of the last keys are that much narrower.
    add(kShort, short_keys->tiles, short_keys->keys, short_keys->keys).key_step = 16;
  }
  for (int nth = 0;; ++nth) {
    const LongBuild* const build = long_build(problem.head_dim, nth);
    if (build == nullptr) break;
    if (build->team_tiles > 0 && may_have_teams(problem)) {
      add(kFirstLong + nth, 1, build->keys, kAnyLength);
      table.rules[table.num_rules - 1].max_q_length = build->team_tiles * (kTileRows / heads);
    }
    add(kFirstLong + nth, build->consumers, build->keys, build->max_keys);
  }
  return table;
}

}  // namespace ragged::sm90
