#include "minilm.hpp"

#include <chrono>
#include <cmath>
#include <cstring>

#include <ragged/ragged.hpp>

#include "dense.hpp"

namespace embed {
namespace {

constexpr double kEpsilon = 1e-12;  // of every layer norm

using Clock = std::chrono::steady_clock;

std::size_t to_size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Mean over each text's rows, scaled to unit length.
std::vector<float> pool(std::span<const float> x, const std::vector<std::int32_t>& cu_seqlens) {
  std::vector<float> embeddings;
  embeddings.reserve((cu_seqlens.size() - 1) * to_size(kHidden));
  for (std::size_t text = 0; text + 1 < cu_seqlens.size(); ++text) {
    std::vector<double> sum(to_size(kHidden), 0.0);
    for (std::int64_t row = cu_seqlens[text]; row < cu_seqlens[text + 1]; ++row) {
      for (std::int64_t i = 0; i < kHidden; ++i) sum[to_size(i)] += x[to_size(row * kHidden + i)];
    }
    double squares = 0.0;
    for (const double value : sum) squares += value * value;
    const double scale = 1.0 / std::sqrt(squares);
    for (const double value : sum) embeddings.push_back(static_cast<float>(value * scale));
  }
  return embeddings;
}

}  // namespace

MiniLm::MiniLm(const ragged::safetensors::Archive& weights) {
  word_embeddings_ = tensor(weights, "embeddings.word_embeddings.weight");
  position_embeddings_ = tensor(weights, "embeddings.position_embeddings.weight");
  token_type_embeddings_ = tensor(weights, "embeddings.token_type_embeddings.weight");
  embedding_norm_ = linear_of(weights, "embeddings.LayerNorm");
  for (int i = 0; i < kLayers; ++i) {
    const std::string prefix = "encoder.layer." + std::to_string(i) + ".";
    layers_.push_back({.query = linear_of(weights, prefix + "attention.self.query"),
                       .key = linear_of(weights, prefix + "attention.self.key"),
                       .value = linear_of(weights, prefix + "attention.self.value"),
                       .attention_output = linear_of(weights, prefix + "attention.output.dense"),
                       .intermediate = linear_of(weights, prefix + "intermediate.dense"),
                       .output = linear_of(weights, prefix + "output.dense"),
                       .attention_norm = linear_of(weights, prefix + "attention.output.LayerNorm"),
                       .output_norm = linear_of(weights, prefix + "output.LayerNorm")});
  }
}

std::span<const float> MiniLm::tensor(const ragged::safetensors::Archive& weights,
                                      const std::string& name) {
  const ragged::safetensors::Tensor* found = weights.find(name);
  if (found == nullptr || found->type != ragged::safetensors::ElementType::f32) {
    throw ragged::Error(ragged::ErrorCode::invalid_argument,
                        "weights: expected a tensor " + name + " of F32, came " +
                            (found == nullptr ? "none" : std::string(to_string(found->type))));
  }
  std::vector<float>& values = storage_[name];
  values.resize(to_size(found->elements()));
  std::memcpy(values.data(), found->data.data(), found->data.size());
  return values;
}

MiniLm::Linear MiniLm::linear_of(const ragged::safetensors::Archive& weights,
                                 const std::string& prefix) {
  return {.weight = tensor(weights, prefix + ".weight"), .bias = tensor(weights, prefix + ".bias")};
}

std::vector<float> MiniLm::embed_tokens(std::span<const std::int32_t> token_ids,
                                        const std::vector<std::int32_t>& cu_seqlens) const {
  std::vector<float> x(token_ids.size() * to_size(kHidden));
  for (std::size_t text = 0; text + 1 < cu_seqlens.size(); ++text) {
    for (std::int64_t row = cu_seqlens[text]; row < cu_seqlens[text + 1]; ++row) {
      const std::int64_t word = token_ids[to_size(row)] * kHidden;
      const std::int64_t position = (row - cu_seqlens[text]) * kHidden;
      for (std::int64_t i = 0; i < kHidden; ++i) {
        x[to_size(row * kHidden + i)] = word_embeddings_[to_size(word + i)] +
                                        position_embeddings_[to_size(position + i)] +
                                        token_type_embeddings_[to_size(i)];
      }
    }
  }
  layer_norm(x, embedding_norm_.weight, embedding_norm_.bias, kEpsilon);
  return x;
}

std::vector<float> MiniLm::embed(std::span<const std::int32_t> token_ids,
                                 const std::vector<std::int32_t>& cu_seqlens,
                                 double& attention_seconds) const {
  const auto tokens = static_cast<std::int64_t>(token_ids.size());
  std::vector<float> x = embed_tokens(token_ids, cu_seqlens);

  // q, k and v of a token side by side, [tokens, 3, kHeads, kHeadDim]: attention reads them in
  // place, with a row stride of 3 kHidden.
  std::vector<float> qkv(to_size(tokens * 3 * kHidden));
  const auto part = [&](std::int64_t which) {
    ragged::TensorView view = ragged::TensorView::packed(
        qkv.data() + which * kHidden, ragged::DType::fp32, tokens, kHeads, kHeadDim);
    view.strides[0] = 3 * kHidden;
    return view;
  };
  std::vector<float> attended(x.size()), projected(x.size());
  const std::int64_t inner = static_cast<std::int64_t>(layers_.front().intermediate.bias.size());
  std::vector<float> hidden(to_size(tokens * inner));

  ragged::RaggedPrefillWrapper attention({.num_qo_heads = kHeads,
                                          .num_kv_heads = kHeads,
                                          .head_dim = kHeadDim,
                                          .q_data_type = ragged::DType::fp32});
  Clock::time_point start = Clock::now();
  attention.plan(cu_seqlens);  // once; every layer has the same layout
  attention_seconds += std::chrono::duration<double>(Clock::now() - start).count();

  for (const Layer& layer : layers_) {
    linear(tokens, x, layer.query.weight, layer.query.bias, qkv.data(), 3 * kHidden);
    linear(tokens, x, layer.key.weight, layer.key.bias, qkv.data() + kHidden, 3 * kHidden);
    linear(tokens, x, layer.value.weight, layer.value.bias, qkv.data() + 2 * kHidden, 3 * kHidden);
    start = Clock::now();
    attention.run(
        part(0), part(1), part(2),
        ragged::TensorView::packed(attended.data(), ragged::DType::fp32, tokens, kHeads, kHeadDim));
    attention_seconds += std::chrono::duration<double>(Clock::now() - start).count();
    linear(tokens, attended, layer.attention_output.weight, layer.attention_output.bias,
           projected.data(), kHidden);
    add(x, projected);
    layer_norm(x, layer.attention_norm.weight, layer.attention_norm.bias, kEpsilon);

    linear(tokens, x, layer.intermediate.weight, layer.intermediate.bias, hidden.data(), inner);
    gelu(hidden);
    linear(tokens, hidden, layer.output.weight, layer.output.bias, projected.data(), kHidden);
    add(x, projected);
    layer_norm(x, layer.output_norm.weight, layer.output_norm.bias, kEpsilon);
  }
  return pool(x, cu_seqlens);
}

}  // namespace embed
