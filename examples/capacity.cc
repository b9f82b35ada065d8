// Capacity mode: one wrapper, sized by ceilings, plans any layout within them without allocating,
// and gives the bits that a wrapper made for that layout gives.

#include <cstdint>
#include <iostream>
#include <random>
#include <vector>

#include <ragged/ragged.hpp>

namespace {

constexpr std::int64_t kMaxTokens = 512;
constexpr int kHeads = 4;
constexpr int kHeadDim = 64;

// [kMaxTokens, kHeads, kHeadDim], as the static buffers of a captured graph are.
ragged::TensorView view(std::vector<float>& data) {
  return ragged::TensorView::packed(data.data(), ragged::DType::fp32, kMaxTokens, kHeads, kHeadDim);
}

std::vector<float> random_values(unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(kMaxTokens * kHeads * kHeadDim);
  for (float& value : values) value = normal(generator);
  return values;
}

}  // namespace

int main() {
  ragged::WrapperOptions options{.num_qo_heads = kHeads,
                                 .num_kv_heads = kHeads,
                                 .head_dim = kHeadDim,
                                 .q_data_type = ragged::DType::fp32};
  ragged::RaggedPrefillWrapper eager(options);
  options.max_num_segments = 8;
  options.max_total_tokens = kMaxTokens;
  options.accelerator_graph = true;
  ragged::RaggedPrefillWrapper captured(options);
  std::cout << "scratch, known before the first plan: " << captured.workspace_bytes() << " bytes\n";

  std::vector<float> q = random_values(1), k = random_values(2), v = random_values(3);
  const std::vector<std::vector<std::int64_t>> steps = {
      {0, 512}, {0, 3, 3, 180, 200}, {0, 64, 128, 192, 256}};
  for (const std::vector<std::int64_t>& cu_seqlens : steps) {
    std::vector<float> out_eager(q.size()), out_captured(q.size());
    eager.plan(cu_seqlens, /*causal=*/true);
    eager.run(view(q), view(k), view(v), view(out_eager));
    captured.plan(cu_seqlens, /*causal=*/true);
    captured.run(view(q), view(k), view(v), view(out_captured));
    if (out_eager != out_captured) {
      std::cerr << "the captured wrapper gave other bits than the eager one\n";
      return 1;
    }
    std::cout << captured.num_segments() << " segments, " << cu_seqlens.back() << " tokens: same\n";
  }

  try {
    captured.plan({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});  // nine segments, eight declared
  } catch (const ragged::Error& error) {
    std::cout << "refused: " << error.what() << '\n';
    return 0;
  }
  std::cerr << "a step above the ceilings was not refused\n";
  return 1;
}
