// Two segments whose values are constant each: attention gives every row its own segment's value,
// whatever the scores. Exit 0 if it does and the plan says which backend ran.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <ragged/ragged.hpp>

int main() {
  constexpr std::int64_t heads = 2, head_dim = 16, tokens = 9;
  constexpr std::size_t count = heads * head_dim * tokens;
  std::vector<float> q(count), k(count), v(count), out(count, -1.0F);
  for (std::size_t i = 0; i < count; ++i) {
    q[i] = static_cast<float>(i % 7) - 3.0F;
    k[i] = static_cast<float>(i % 5) - 2.0F;
    v[i] = i < count / 3 ? 1.0F : 2.0F;  // the segment of 3 tokens, the one of 6
  }
  const auto view = [](std::vector<float>& data) {
    return ragged::TensorView::packed(data.data(), ragged::DType::fp32, tokens, heads, head_dim);
  };

  ragged::RaggedPrefillWrapper attention({.num_qo_heads = heads,
                                          .num_kv_heads = heads,
                                          .head_dim = head_dim,
                                          .q_data_type = ragged::DType::fp32});
  attention.plan({0, 3, tokens});
  attention.run(view(q), view(k), view(v), view(out));

  for (std::size_t i = 0; i < count; ++i) {
    const float difference = out[i] - v[i];
    if (!(difference < 1e-6F && difference > -1e-6F)) {
      std::fprintf(stderr, "out[%zu] is %g, its segment's value is %g\n", i,
                   static_cast<double>(out[i]), static_cast<double>(v[i]));
      return 1;
    }
  }
  std::printf("%s\n", attention.explain().c_str());
  return attention.current_plan().backend_name.empty() ? 1 : 0;
}
