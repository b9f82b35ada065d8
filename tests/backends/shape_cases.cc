// Head dims, head ratios, and the shapes of layouts with many tokens (edge cases 1-3, 30, 32).

#include "backends/case.hpp"

namespace ragged::test {
namespace {

void add_head_dims(std::vector<Case>& cases) {
  for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
    Case c;
    c.name = "edge01_d" + std::to_string(head_dim);
    c.kind = AttentionKind::cross;
    c.head_dim = head_dim;
    c.q_lengths = {128};
    c.kv_lengths = {256};
    // The dims that users met, at their size; the ones between, at a smaller one.
    const bool met = head_dim <= 8 || head_dim == 32 || head_dim == 40 || head_dim == 56 ||
                     (head_dim >= 72 && head_dim <= 120 && head_dim % 8 == 0) || head_dim == 136 ||
                     head_dim == 160 || head_dim == 192 || head_dim == 224 || head_dim == 256;
    if (!met) {
      c.num_qo_heads = 2;
      c.num_kv_heads = 1;
      c.q_lengths = {37, 3};
      c.kv_lengths = {70, 130};
    }
    cases.push_back(c);
    c.name += "_causal";
    c.kind = AttentionKind::prefixed;
    c.causal = true;
    cases.push_back(c);
  }
}

void add_head_ratios(std::vector<Case>& cases) {
  const int ratios[][2] = {{28, 4}, {24, 4}, {64, 4}, {56, 8}, {5, 1},
                           {71, 1}, {9, 3},  {21, 7}, {12, 4}, {8, 8}};
  for (const auto& [num_qo_heads, num_kv_heads] : ratios) {
    Case c;
    c.name = "edge02_h" + std::to_string(num_qo_heads) + "_over_" + std::to_string(num_kv_heads);
    c.num_qo_heads = num_qo_heads;
    c.num_kv_heads = num_kv_heads;
    c.head_dim = num_qo_heads > 32 ? 64 : 128;
    c.q_lengths = {33, 1, 70};
    cases.push_back(c);
    c.name += "_causal";
    c.causal = true;
    cases.push_back(c);
  }
}

}  // namespace

std::vector<Case> shape_cases() {
  std::vector<Case> cases;
  add_head_dims(cases);
  add_head_ratios(cases);

  Case fp32;
  fp32.name = "edge03_lengths_300_17";
  fp32.q_lengths = {300, 17};
  cases.push_back(fp32);
  fp32.name += "_causal";
  fp32.causal = true;
  cases.push_back(fp32);

  // Around 16,384 tokens in all. Segments of 61 tokens keep it affordable.
  for (const std::int64_t total : {16383, 16384, 16385}) {
    Case c;
    c.name = "edge30_tokens_" + std::to_string(total);
    c.num_qo_heads = 8;  // the ratio of 32 to 4; those are in the large tests
    c.num_kv_heads = 1;
    c.dtypes = {DType::bf16};
    c.q_lengths.assign(static_cast<std::size_t>(total / 61), 61);
    c.q_lengths.push_back(total % 61);
    c.sampled_rows = 200;
    cases.push_back(c);
  }

  Case mixed;
  mixed.name = "edge32_one_long_among_short";
  mixed.num_qo_heads = 12;
  mixed.num_kv_heads = 12;
  mixed.head_dim = 128;
  mixed.dtypes = {DType::bf16, DType::fp32};
  mixed.q_lengths.assign(15, 100);
  mixed.q_lengths.push_back(2051);
  mixed.sampled_rows = 100;
  cases.push_back(mixed);

  // Lengths around the edges of any tile.
  for (const bool causal : {false, true}) {
    Case c;
    c.name = causal ? "tile_edges_causal" : "tile_edges";
    c.num_qo_heads = 2;
    c.num_kv_heads = 1;
    c.head_dim = 40;
    c.causal = causal;
    c.q_lengths = {1,  2,  3,  4,  5,  7,  8,  9,  15, 16, 17, 23,  24,  25,  31,
                   32, 33, 47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 193};
    cases.push_back(c);
  }
  return cases;
}

}  // namespace ragged::test
