#pragma once

// all-MiniLM-L6-v2, a sentence encoder of six layers, over packed texts: no token is padding, and
// no mask is built.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "safetensors.hpp"

namespace embed {

inline constexpr std::int64_t kHidden = 384;
inline constexpr int kHeads = 12;
inline constexpr int kHeadDim = 32;
inline constexpr int kLayers = 6;

class MiniLm {
 public:
  // Reads every tensor of the pass; throws ragged::Error naming one that is missing or not F32.
  explicit MiniLm(const ragged::safetensors::Archive& weights);

  // One embedding of unit length for each text: [num_texts, kHidden]. Text i is token_ids
  // [cu_seqlens[i], cu_seqlens[i + 1]), at most 512 tokens. Adds the seconds spent in attention to
  // `attention_seconds`.
  [[nodiscard]] std::vector<float> embed(std::span<const std::int32_t> token_ids,
                                         const std::vector<std::int32_t>& cu_seqlens,
                                         double& attention_seconds) const;

 private:
  struct Linear {
    std::span<const float> weight;  // [out, in]
    std::span<const float> bias;    // [out]
  };
  struct Layer {
    Linear query, key, value, attention_output, intermediate, output;
    Linear attention_norm, output_norm;  // weight and bias of a layer norm, [kHidden] each
  };

  std::span<const float> tensor(const ragged::safetensors::Archive& weights,
                                const std::string& name);
  Linear linear_of(const ragged::safetensors::Archive& weights, const std::string& prefix);
  [[nodiscard]] std::vector<float> embed_tokens(std::span<const std::int32_t> token_ids,
                                                const std::vector<std::int32_t>& cu_seqlens) const;

  std::map<std::string, std::vector<float>> storage_;
  std::span<const float> word_embeddings_, position_embeddings_, token_type_embeddings_;
  Linear embedding_norm_;
  std::vector<Layer> layers_;
};

}  // namespace embed
