// An action expert over a frozen prefix: the prefix K/V of each request lie in one tensor, written
// once; the fresh K/V of the step lie in another. They are never joined in memory.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <vector>

#include <ragged/ragged.hpp>

namespace {

constexpr int kQoHeads = 8;
constexpr int kKvHeads = 2;
constexpr int kHeadDim = 64;

std::vector<float> random_values(std::int64_t tokens, int heads, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(tokens * heads * kHeadDim));
  for (float& value : values) value = normal(generator);
  return values;
}

ragged::TensorView view(std::vector<float>& data, int heads) {
  const auto tokens = static_cast<std::int64_t>(data.size()) / (heads * kHeadDim);
  return ragged::TensorView::packed(data.data(), ragged::DType::fp32, tokens, heads, kHeadDim);
}

// Each request's prefix rows followed by its fresh rows: what the two sources stand for.
std::vector<float> join(const std::vector<float>& prefix,
                        const std::vector<std::int64_t>& prefix_cu, const std::vector<float>& fresh,
                        const std::vector<std::int64_t>& fresh_cu) {
  constexpr std::int64_t kRow = kKvHeads * kHeadDim;
  std::vector<float> joined;
  for (std::size_t i = 0; i + 1 < prefix_cu.size(); ++i) {
    joined.insert(joined.end(), prefix.begin() + prefix_cu[i] * kRow,
                  prefix.begin() + prefix_cu[i + 1] * kRow);
    joined.insert(joined.end(), fresh.begin() + fresh_cu[i] * kRow,
                  fresh.begin() + fresh_cu[i + 1] * kRow);
  }
  return joined;
}

}  // namespace

int main() {
  const std::vector<std::int64_t> q_cu_seqlens = {0, 50, 100};        // fresh tokens
  const std::vector<std::int64_t> prefix_cu_seqlens = {0, 300, 420};  // of 300 and 120 tokens
  const std::vector<std::int64_t> kv_cu_seqlens = {0, 350, 520};      // prefix and fresh

  std::vector<float> q = random_values(100, kQoHeads, 1);
  std::vector<float> k = random_values(100, kKvHeads, 2), v = random_values(100, kKvHeads, 3);
  std::vector<float> prefix_k = random_values(420, kKvHeads, 4);
  std::vector<float> prefix_v = random_values(420, kKvHeads, 5);

  ragged::PrefixedPrefillWrapper attention({.num_qo_heads = kQoHeads,
                                            .num_kv_heads = kKvHeads,
                                            .head_dim = kHeadDim,
                                            .q_data_type = ragged::DType::fp32});
  std::vector<float> out(q.size());
  attention.plan_two_sources(q_cu_seqlens, prefix_cu_seqlens, /*causal=*/true);
  attention.run_two_sources(view(q, kQoHeads), view(prefix_k, kKvHeads), view(prefix_v, kKvHeads),
                            view(k, kKvHeads), view(v, kKvHeads), view(out, kQoHeads));
  std::cout << attention.explain();

  // The same with the keys joined by hand.
  std::vector<float> joined_k = join(prefix_k, prefix_cu_seqlens, k, q_cu_seqlens);
  std::vector<float> joined_v = join(prefix_v, prefix_cu_seqlens, v, q_cu_seqlens);
  std::vector<float> expected(q.size());
  attention.plan(q_cu_seqlens, kv_cu_seqlens, /*causal=*/true);
  attention.run(view(q, kQoHeads), view(joined_k, kKvHeads), view(joined_v, kKvHeads),
                view(expected, kQoHeads));
  float worst = 0.0F;
  for (std::size_t i = 0; i < out.size(); ++i) {
    worst = std::max(worst, std::abs(out[i] - expected[i]));
    if (std::isnan(out[i])) worst = HUGE_VALF;
  }
  std::cout << "largest difference from joined keys: " << worst << '\n';
  return worst < 1e-5F ? 0 : 1;
}
