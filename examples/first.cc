#include <iostream>
#include <vector>

#include <ragged/ragged.hpp>

int main() {
  std::vector<float> q(1700 * 16 * 72, 0.1F), k = q, v = q, out(q.size());
  const auto view = [](std::vector<float>& x) {
    return ragged::TensorView::packed(x.data(), ragged::DType::fp32, 1700, 16, 72);
  };
  ragged::RaggedPrefillWrapper attention(
      {.num_qo_heads = 16, .num_kv_heads = 16, .head_dim = 72, .q_data_type = ragged::DType::fp32});
  attention.plan({0, 729, 1458, 1700});                 // three images, packed end to end
  attention.run(view(q), view(k), view(v), view(out));  // once a layer
  std::cout << attention.explain();                     // which backend, and why no other
}
