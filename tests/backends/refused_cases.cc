// What no backend serves: refused at plan, with a text that names the argument and what came.

#include "backends/case.hpp"

namespace ragged::test {

std::vector<Case> refused_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const std::vector<std::string>& parts,
                       const auto& change) {
    Case c;
    c.name = name;
    c.q_lengths = {4, 3};
    c.refused = parts;
    change(c);
    cases.push_back(c);
  };
  add("edge01_d100_refused", {"head_dim", "100", "8"}, [](Case& c) { c.head_dim = 100; });
  add("d264_refused", {"head_dim", "264", "256"}, [](Case& c) { c.head_dim = 264; });
  add("d0_refused", {"head_dim", "0"}, [](Case& c) { c.head_dim = 0; });
  add("edge02_h16_over_3_refused", {"num_qo_heads", "16", "num_kv_heads", "3"}, [](Case& c) {
    c.num_qo_heads = 16;
    c.num_kv_heads = 3;
  });
  add("no_heads_refused", {"num_qo_heads", "0"}, [](Case& c) { c.num_qo_heads = 0; });
  add("no_kv_heads_refused", {"num_kv_heads", "0"}, [](Case& c) { c.num_kv_heads = 0; });
  add("block_size_0_refused", {"block_size", "0"},
      [](Case& c) { c.kind = AttentionKind::block_causal; });
  add("block_size_negative_refused", {"block_size", "-5"}, [](Case& c) {
    c.kind = AttentionKind::block_causal;
    c.block_size = -5;
  });
  return cases;
}

}  // namespace ragged::test
