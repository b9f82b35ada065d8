#include "backends/sample_cases.hpp"

namespace ragged::test {
namespace {

bool serves(const Target& target, const Case& c, DType dtype) {
  return !target.may_decline ||
         target.backend->declines(problem_of(c, dtype), target.facts).empty();
}

}  // namespace

std::vector<Case> sample_cases(const Target& target) {
  std::vector<Case> cases;
  Case c;
  c.num_qo_heads = 6;
  c.num_kv_heads = 2;
  c.head_dim = 40;
  if (!serves(target, c, DType::bf16)) c.head_dim = 80;
  c.q_lengths = {50, 0, 1, 130, 17};

  c.name = "self";
  cases.push_back(c);
  c.name = "self_causal";
  c.causal = true;
  cases.push_back(c);
  c.name = "block_causal";
  c.kind = AttentionKind::block_causal;
  c.causal = false;
  c.block_size = 12;
  cases.push_back(c);

  c.block_size = 0;
  c.name = "cross";
  c.kind = AttentionKind::cross;
  c.kv_lengths = {33, 20, 140, 0, 70};
  cases.push_back(c);
  c.name = "prefixed_causal";
  c.kind = AttentionKind::prefixed;
  c.causal = true;
  c.kv_lengths = {83, 20, 140, 130, 12};
  cases.push_back(c);
  c.name = "two_sources";
  c.causal = false;
  c.kv_lengths = {};
  c.prefix_lengths = {33, 20, 139, 0, 65};
  cases.push_back(c);
  c.name = "two_sources_causal";
  c.causal = true;
  cases.push_back(c);
  std::erase_if(cases, [&](const Case& one) { return !serves(target, one, DType::bf16); });
  return cases;
}

std::vector<DType> sample_dtypes(const Target& target) {
  if (target.slow || target.narrowed) return {DType::bf16};
  std::vector<DType> served;
  for (const DType dtype : all_dtypes()) {
    if (serves(target, Case(), dtype)) served.push_back(dtype);
  }
  return served;
}

}  // namespace ragged::test
