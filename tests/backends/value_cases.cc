// Scores of every size (edge cases 19, 20).

#include "backends/case.hpp"

namespace ragged::test {
namespace {

Case with_values(std::string name, Values values, std::vector<std::int64_t> lengths) {
  Case c;
  c.name = std::move(name);
  c.values = values;
  c.q_lengths = std::move(lengths);
  c.num_qo_heads = 4;
  c.num_kv_heads = 2;
  return c;
}

}  // namespace

std::vector<Case> value_cases() {
  std::vector<Case> cases;
  Case low = with_values("edge19_lowest_score", Values::minus_524288, {1});
  low.sm_scale = 1.0;
  cases.push_back(low);
  low.name = "edge19_lowest_scores_many_keys";
  low.q_lengths = {70, 1, 33};
  cases.push_back(low);
  low.name = "edge19_lowest_scores_causal";
  low.causal = true;
  cases.push_back(low);

  Case huge = with_values("edge20_huge_one_token", Values::huge, {1});
  huge.dtypes = {DType::bf16, DType::fp32};  // beyond fp16
  cases.push_back(huge);
  huge.name = "edge20_huge_many_tokens";
  huge.q_lengths = {40, 1};
  cases.push_back(huge);
  Case extreme = with_values("edge20_plus_minus_1e30", Values::plus_minus_1e30, {2, 1, 70});
  extreme.dtypes = {DType::fp32};
  extreme.sm_scale = 1.0;
  cases.push_back(extreme);
  extreme.name += "_causal";
  extreme.causal = true;
  cases.push_back(extreme);
  cases.push_back(with_values("edge20_equal_scores", Values::equal_scores, {130, 1, 17}));

  for (const bool causal : {false, true}) {
    const std::string suffix = causal ? "_causal" : "";
    for (const auto& [name, values] : {std::pair{"scores_peaked", Values::peaked},
                                       {"scores_rising", Values::rising},
                                       {"scores_falling", Values::falling}}) {
      Case c = with_values(name + suffix, values, {300, 5, 129});
      c.causal = causal;
      cases.push_back(c);
    }
  }
  for (const double sm_scale : {1e-6, 0.5, -0.25}) {
    Case c = with_values("sm_scale_" + std::to_string(sm_scale), Values::normal, {70, 9});
    for (char& letter : c.name) {
      if (letter == '.' || letter == '-') letter = letter == '.' ? 'p' : 'm';
    }
    c.sm_scale = sm_scale;
    cases.push_back(c);
  }
  return cases;
}

}  // namespace ragged::test
