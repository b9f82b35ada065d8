// Where tensors lie: fused views, strides, gaps, tails, and the forms of offsets (edge cases 4, 18,
// 26).

#include "backends/case.hpp"

namespace ragged::test {
namespace {

Case self(std::string name, std::vector<std::int64_t> lengths) {
  Case c;
  c.name = std::move(name);
  c.q_lengths = std::move(lengths);
  return c;
}

void add_fused(std::vector<Case>& cases) {
  Case fused = self("edge04_stacked_qkv", {729, 64});
  fused.head_dim = 72;
  fused.fusion = Fusion::stacked;
  cases.push_back(fused);
  fused.name += "_causal";
  fused.causal = true;
  cases.push_back(fused);
  fused.name = "edge04_heads_qkv";
  fused.fusion = Fusion::heads;
  fused.causal = false;
  fused.num_kv_heads = 2;
  cases.push_back(fused);
  fused.name = "edge04_heads_qkv_padded_tail";
  fused.row_padding = 8;
  fused.tail_rows = 5;
  cases.push_back(fused);
}

// The same storage for every kind of attention.
void add_every_kind(std::vector<Case>& cases, const std::string& name, const Case& storage) {
  Case c = storage;
  c.num_qo_heads = 6;
  c.num_kv_heads = 3;
  c.q_lengths = {50, 0, 17, 96, 1};
  c.name = name + "_self";
  cases.push_back(c);
  c.name = name + "_causal";
  c.causal = true;
  cases.push_back(c);
  c.name = name + "_block_causal";
  c.causal = false;
  c.kind = AttentionKind::block_causal;
  c.block_size = 13;
  cases.push_back(c);
  c.kind = AttentionKind::cross;
  c.block_size = 0;
  c.name = name + "_cross";
  c.kv_lengths = {31, 4, 0, 100, 65};
  cases.push_back(c);
  if (c.gap_rows > 0) return;  // prefixed wrappers take offsets alone
  c.kind = AttentionKind::prefixed;
  c.name = name + "_prefixed_causal";
  c.causal = true;
  c.kv_lengths = {60, 4, 33, 100, 65};
  cases.push_back(c);
  c.name = name + "_two_sources_causal";
  c.kv_lengths = {};
  c.prefix_lengths = {10, 0, 33, 1, 65};
  cases.push_back(c);
}

}  // namespace

std::vector<Case> storage_cases() {
  std::vector<Case> cases;
  add_fused(cases);

  Case tail = self("edge18_tail_of_640_rows", {200, 150, 47});
  tail.tail_rows = 243;
  cases.push_back(tail);
  Case many = self("edge18_many_heads_tail", {33, 11, 11, 11, 11, 11, 12});
  many.num_qo_heads = 64;
  many.num_kv_heads = 16;
  many.head_dim = 128;
  many.tail_rows = 28;
  cases.push_back(many);

  Case padded;
  padded.row_padding = 16;
  padded.head_padding = 8;
  padded.tail_rows = 3;
  padded.head_dim = 40;
  add_every_kind(cases, "padded", padded);
  Case odd = padded;  // rows that start anywhere
  odd.row_padding = 3;
  odd.head_padding = 1;
  odd.any_alignment = true;
  add_every_kind(cases, "odd_strides", odd);
  Case gaps;
  gaps.gap_rows = 9;
  gaps.tail_rows = 70;
  gaps.head_dim = 72;
  add_every_kind(cases, "gaps", gaps);
  // No tail: whatever is read past the last row is not there.
  Case flush;
  flush.head_dim = 24;
  add_every_kind(cases, "flush_end", flush);

  for (const auto& [form, text] : {std::pair{IndexForm::int32, "int32"},
                                   {IndexForm::strided_int64, "strided_int64"},
                                   {IndexForm::strided_int32, "strided_int32"}}) {
    Case c;
    c.head_dim = 16;
    c.index = form;
    add_every_kind(cases, std::string("edge26_offsets_") + text, c);
    c.gap_rows = 2;
    add_every_kind(cases, std::string("edge26_spans_") + text, c);
  }
  Case fewer = self("edge26_offsets_of_fewer_rows", {4, 2});
  fewer.tail_rows = 4;
  cases.push_back(fewer);
  return cases;
}

}  // namespace ragged::test
