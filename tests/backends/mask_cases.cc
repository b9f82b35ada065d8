// Causal alignment, blocks and prefixes (edge cases 10, 11, 14, 16).

#include "backends/case.hpp"

namespace ragged::test {
namespace {

Case prefixed(std::string name, std::vector<std::int64_t> q, std::vector<std::int64_t> keys,
              bool causal) {
  Case c;
  c.name = std::move(name);
  c.kind = AttentionKind::prefixed;
  c.q_lengths = std::move(q);
  c.kv_lengths = std::move(keys);
  c.causal = causal;
  return c;
}

Case block_causal(std::string name, std::int64_t block_size, std::vector<std::int64_t> lengths) {
  Case c;
  c.name = std::move(name);
  c.kind = AttentionKind::block_causal;
  c.block_size = block_size;
  c.q_lengths = std::move(lengths);
  return c;
}

// The prefix as a source of its own, and joined with the fresh keys.
void add_prefixes(std::vector<Case>& cases, Case c, const std::vector<std::int64_t>& prefixes,
                  const std::vector<std::int64_t>& fresh) {
  const std::string name = c.name;
  c.kind = AttentionKind::prefixed;
  c.q_lengths = fresh;
  c.name = name + "_two_sources";
  c.prefix_lengths = prefixes;
  cases.push_back(c);
  c.name = name + "_joined";
  c.prefix_lengths.clear();
  for (std::size_t i = 0; i < fresh.size(); ++i) c.kv_lengths.push_back(prefixes[i] + fresh[i]);
  cases.push_back(c);
}

void add_blocks(std::vector<Case>& cases) {
  Case long_block = block_causal("edge14_block_258", 258, {258, 516, 4128, 259});
  long_block.num_qo_heads = 4;
  long_block.num_kv_heads = 2;
  long_block.sampled_rows = 80;
  cases.push_back(long_block);
  Case block_50 = block_causal("edge14_block_50", 50, {1500, 733, 49, 51, 50, 1});
  block_50.sampled_rows = 120;
  cases.push_back(block_50);
  cases.push_back(block_causal("edge14_block_7_empty_spans", 7, {20, 0, 9, 0}));
  cases.push_back(block_causal("edge14_block_1", 1, {65, 0, 40}));
  cases.push_back(block_causal("edge14_block_above_span", 1000, {65, 999, 1000, 40}));
  cases.push_back(block_causal("edge14_block_largest", INT64_MAX, {65, 40}));
  for (const std::int64_t block_size : {2, 3, 15, 16, 17, 24, 33, 64, 100}) {
    Case c = block_causal("edge14_block_size_" + std::to_string(block_size), block_size,
                          {130, 1, block_size, block_size + 1, 3 * block_size - 1});
    c.num_qo_heads = 6;
    c.num_kv_heads = 2;
    c.head_dim = 32;
    cases.push_back(c);
  }
}

}  // namespace

std::vector<Case> mask_cases() {
  std::vector<Case> cases;
  cases.push_back(prefixed("edge10_q2_kv5", {2}, {5}, true));
  cases.push_back(prefixed("edge10_q5_kv2", {5}, {2}, true));
  cases.push_back(prefixed("edge10_both_and_equal", {2, 5, 4, 130, 90}, {5, 2, 4, 90, 130}, true));
  Case fewer = prefixed("edge10_two_sources_fewer_keys", {5, 70, 3}, {1, 20, 1}, true);
  fewer.prefix_lengths = {1, 30, 0};
  cases.push_back(fewer);

  Case causal;
  causal.name = "edge11_long_causal";
  causal.q_lengths = {1743, 1559};
  causal.causal = true;
  causal.sampled_rows = 80;
  cases.push_back(causal);
  Case uneven = prefixed("edge11_last_segment_alone", {0, 0, 1023}, {0, 1, 2045}, true);
  uneven.head_dim = 128;
  uneven.sampled_rows = 60;
  cases.push_back(uneven);

  add_blocks(cases);

  Case action;
  action.name = "edge16_action_expert";
  action.num_kv_heads = 1;
  action.head_dim = 256;
  add_prefixes(cases, action, {816, 0, 300}, {50, 50, 51});
  Case long_prefix;
  long_prefix.name = "edge16_prefix_4096_causal";
  long_prefix.num_qo_heads = 2;
  long_prefix.num_kv_heads = 1;
  long_prefix.causal = true;
  long_prefix.dtypes = {DType::bf16, DType::fp32};
  long_prefix.sampled_rows = 60;
  add_prefixes(cases, long_prefix, {0, 4096, 0, 1}, {17, 17, 1, 4096});
  for (const bool is_causal : {false, true}) {
    Case edges;
    edges.name = is_causal ? "prefix_tile_edges_causal" : "prefix_tile_edges";
    edges.num_qo_heads = 4;
    edges.num_kv_heads = 2;
    edges.head_dim = 48;
    edges.causal = is_causal;
    add_prefixes(cases, edges, {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 33},
                 {16, 17, 1, 64, 33, 65, 5, 1, 40, 129, 15});
  }
  Case own = prefixed("prefix_fresh_offsets", {5, 9, 40}, {7, 0, 60}, false);
  own.prefix_lengths = {3, 11, 100};
  cases.push_back(own);
  own.name += "_causal";
  own.causal = true;
  cases.push_back(own);
  return cases;
}

}  // namespace ragged::test
