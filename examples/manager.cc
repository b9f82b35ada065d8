// What an engine does: a model declares its attention once; each step names its segments; layers
// run by label.

#include <cstdint>
#include <iostream>
#include <vector>

#include <ragged/ragged.hpp>

namespace {

constexpr int kHeads = 4;
constexpr int kHeadDim = 64;

// A packed tensor of `tokens` rows, each row of it `value`.
struct Tensor {
  Tensor(std::int64_t tokens_in, float value)
      : tokens(tokens_in), data(static_cast<std::size_t>(tokens * kHeads * kHeadDim), value) {}
  ragged::TensorView view() {
    return ragged::TensorView::packed(data.data(), ragged::DType::fp32, tokens, kHeads, kHeadDim);
  }
  std::int64_t tokens;
  std::vector<float> data;
};

}  // namespace

int main() {
  // At load. The model: video tokens attend themselves, and the text of their request.
  const ragged::RaggedAttentionConfig config{
      .num_qo_heads = kHeads, .num_kv_heads = kHeads, .head_dim = kHeadDim};
  const ragged::EngineOptions engine{.dtype = ragged::DType::fp32};
  ragged::RaggedAttentionManager self_attention(
      ragged::RaggedAttentionSpec{.resource_key = "self", .nodes = {"denoise"}, .config = config},
      engine);
  ragged::RaggedAttentionManager cross_attention(
      ragged::RaggedCrossAttentionSpec{
          .resource_key = "text", .nodes = {"denoise"}, .config = config},
      engine);

  // A step: two requests, of other lengths in each label.
  const std::vector<ragged::Segment> video = {{"a", "video", 300}, {"b", "video", 120}};
  const std::vector<ragged::Segment> both = {
      {"a", "video", 300}, {"b", "video", 120}, {"a", "text", 20}, {"b", "text", 7}};
  self_attention.plan(ragged::AttentionStep{.segments = video});
  cross_attention.plan(
      ragged::RaggedCrossAttentionStep{.segments = both, .pairs = {{"video", "text"}}});

  // Layers. All keys are alike, so attention gives the mean of a request's values.
  Tensor q(420, 0.5F), k(420, 0.5F), v(420, 1.0F), out(420, 0.0F);
  self_attention.run("video", q.view(), k.view(), v.view(), out.view());
  Tensor text_k(27, 0.5F), text_v(27, 2.0F), text_out(420, 0.0F);
  const ragged::RaggedAttentionCallable attend_text =
      cross_attention.callable(ragged::cross_label("video", "text"));
  attend_text(q.view(), text_k.view(), text_v.view(), text_out.view());

  std::cout << "self: " << self_attention.num_segments("video") << " segments, out " << out.data[0]
            << '\n'
            << attend_text.label() << ": out " << text_out.data[0] << '\n';
  const auto near = [](float x, float expected) {
    return x > expected - 1e-5F && x < expected + 1e-5F;
  };
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    if (!near(out.data[i], 1.0F) || !near(text_out.data[i], 2.0F)) return 1;
  }
  return 0;
}
