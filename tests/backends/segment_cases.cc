// Empty segments, single tokens, unequal lengths (edge cases 8, 9, 11-13, 22, 23, 31).

#include "backends/case.hpp"

namespace ragged::test {
namespace {

Case cross(std::string name, std::vector<std::int64_t> q, std::vector<std::int64_t> kv) {
  Case c;
  c.name = std::move(name);
  c.kind = AttentionKind::cross;
  c.q_lengths = std::move(q);
  c.kv_lengths = std::move(kv);
  return c;
}

Case self(std::string name, std::vector<std::int64_t> q) {
  Case c;
  c.name = std::move(name);
  c.q_lengths = std::move(q);
  return c;
}

// Every kind with empty segments in every place.
void add_empty(std::vector<Case>& cases) {
  Case ends = cross("edge08_empty_ends", {0, 1208, 840, 0}, {2538, 1742, 840, 3072});
  ends.num_qo_heads = 4;
  ends.num_kv_heads = 1;
  ends.head_dim = 256;
  ends.sampled_rows = 100;
  cases.push_back(ends);
  cases.push_back(cross("edge08_empty_q", {150, 0, 150}, {100, 100, 100}));
  cases.push_back(cross("edge08_empty_kv", {5, 5}, {0, 7}));
  cases.push_back(cross("edge08_all_kv_empty", {5, 5}, {0, 0}));
  cases.push_back(cross("edge08_all_empty", {0, 0}, {0, 0}));
  cases.push_back(cross("edge08_no_segments", {}, {}));
  cases.push_back(self("edge08_self_all_empty", {0, 0}));
  cases.push_back(self("edge08_self_no_segments", {}));
  cases.push_back(self("edge08_self_empty_between", {0, 7, 0, 0, 33, 0}));

  Case prefixed = cross("edge08_prefixed_empty", {0, 3, 0, 2}, {4, 3, 0, 0});
  prefixed.kind = AttentionKind::prefixed;
  cases.push_back(prefixed);
  prefixed.name += "_causal";
  prefixed.causal = true;
  cases.push_back(prefixed);

  Case two = self("edge08_two_sources_empty", {0, 3, 0, 2});
  two.kind = AttentionKind::prefixed;
  two.prefix_lengths = {4, 0, 0, 5};
  cases.push_back(two);
  two.name = "edge08_two_sources_no_keys";
  two.kv_lengths = {0, 0, 0, 0};
  cases.push_back(two);
  two.name = "edge08_two_sources_no_segments";
  two.q_lengths = {0};
  two.kv_lengths = {};
  two.prefix_lengths = {0};
  cases.push_back(two);

  Case block = self("edge08_block_causal_no_segments", {});
  block.kind = AttentionKind::block_causal;
  block.block_size = 7;
  cases.push_back(block);
}

}  // namespace

std::vector<Case> segment_cases() {
  std::vector<Case> cases;
  add_empty(cases);

  Case mixed = cross("edge09_empty_between_causal", {1, 0, 1}, {3, 0, 5});
  mixed.kind = AttentionKind::prefixed;
  mixed.causal = true;
  mixed.num_qo_heads = 9;
  mixed.num_kv_heads = 3;
  cases.push_back(mixed);
  Case last = self("edge09_last_token_alone", {0, 0, 0, 1});
  last.num_qo_heads = 21;
  last.num_kv_heads = 7;
  last.head_dim = 120;
  cases.push_back(last);

  Case decode = cross("edge12_decode_like", std::vector<std::int64_t>(8, 1),
                      {1500, 1, 700, 1499, 0, 64, 1500, 3});
  decode.num_qo_heads = 20;
  decode.num_kv_heads = 20;
  cases.push_back(decode);

  // A row with one key is that key's value, exactly: weights rounded to 16 bits against a sum that
  // is not would show.
  Case one = cross("one_key_beside_many", {100, 200}, {1500, 1});
  one.num_qo_heads = 4;
  one.num_kv_heads = 4;
  one.head_dim = 128;
  one.dtypes = {DType::bf16, DType::fp16};
  cases.push_back(one);

  Case guidance = cross("edge13_guidance_pair", {4608, 4608}, {19, 226});
  guidance.num_qo_heads = 24;
  guidance.num_kv_heads = 24;
  guidance.head_dim = 128;
  guidance.dtypes = {DType::bf16};
  guidance.sampled_rows = 200;
  cases.push_back(guidance);
  Case joint = self("edge13_joint", {4627, 4834});  // of 24 heads, one
  joint.num_qo_heads = 1;
  joint.num_kv_heads = 1;
  joint.head_dim = 128;
  joint.dtypes = {DType::bf16};
  joint.sampled_rows = 50;
  cases.push_back(joint);

  cases.push_back(self("edge17_video_frames", {256, 256, 256, 256}));

  Case odd = self("edge22_odd_tokens", {251});
  odd.num_qo_heads = 5;
  odd.num_kv_heads = 5;
  cases.push_back(odd);
  // Swapped axes of the LSE hide where tokens and heads agree in number: they must not in value.
  Case square = self("edge22_tokens_as_heads", {16});
  square.num_qo_heads = 16;
  square.num_kv_heads = 16;
  cases.push_back(square);

  Case single = cross("edge31_one_token_queries", std::vector<std::int64_t>(4096, 1),
                      std::vector<std::int64_t>(4096, 40));
  single.num_qo_heads = 2;
  single.num_kv_heads = 1;
  single.dtypes = {DType::bf16};
  single.sampled_rows = 300;
  cases.push_back(single);
  Case group = cross("edge31_few_rows_many_keys", {1, 2, 3, 5}, {4100, 3000, 17, 2500});
  group.num_qo_heads = 12;
  group.num_kv_heads = 2;
  cases.push_back(group);
  return cases;
}

}  // namespace ragged::test
