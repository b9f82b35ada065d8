#pragma once

// What the runtime tests share: fp32 tensors, and attention written down plainly.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <ragged/ragged.hpp>

#include "support/refusal.hpp"

namespace ragged::test {

using Offsets = std::vector<std::int64_t>;

// `segments` segments of `length` tokens.
inline Offsets even(std::int64_t segments, std::int64_t length) {
  Offsets offsets(static_cast<std::size_t>(segments) + 1);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = static_cast<std::int64_t>(i) * length;
  }
  return offsets;
}

// An owned fp32 tensor [tokens, heads, head_dim], filled with values in [-1, 1).
class Tensor {
 public:
  Tensor(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, unsigned seed = 0)
      : tokens_(tokens), heads_(heads), head_dim_(head_dim) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    values.resize(static_cast<std::size_t>(tokens * heads * head_dim));
    for (float& value : values) value = uniform(random);
  }
  [[nodiscard]] TensorView view() const {
    return TensorView::packed(values.data(), DType::fp32, tokens_, heads_, head_dim_);
  }
  [[nodiscard]] float at(std::int64_t token, std::int64_t head, std::int64_t dim) const {
    return values[static_cast<std::size_t>((token * heads_ + head) * head_dim_ + dim)];
  }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t heads() const { return heads_; }
  [[nodiscard]] std::int64_t head_dim() const { return head_dim_; }

  std::vector<float> values;

 private:
  std::int64_t tokens_, heads_, head_dim_;
};

// q, k, v, out of one attention, 4 query heads over 2 key heads of 16.
struct Tensors {
  explicit Tensors(std::int64_t q_tokens, std::int64_t kv_tokens = -1, unsigned seed = 1)
      : q(q_tokens, 4, 16, seed),
        k(kv_tokens < 0 ? q_tokens : kv_tokens, 2, 16, seed + 1),
        v(kv_tokens < 0 ? q_tokens : kv_tokens, 2, 16, seed + 2),
        out(q_tokens, 4, 16, seed + 3) {}
  Tensor q, k, v, out;
};

// The options that go with Tensors.
inline WrapperOptions small_options() {
  return {.num_qo_heads = 4, .num_kv_heads = 2, .head_dim = 16, .q_data_type = DType::fp32};
}

inline WrapperOptions capacity_options(std::int64_t max_num_segments,
                                       std::int64_t max_total_tokens) {
  WrapperOptions options = small_options();
  options.max_num_segments = max_num_segments;
  options.max_total_tokens = max_total_tokens;
  options.accelerator_graph = true;
  return options;
}

// Attention in double, segment by segment: row r of a segment with q_len rows sees its keys
// [0, visible(r, q_len, kv_len)). Rows of `out` outside every segment are left as they are.
using Visible =
    std::function<std::int64_t(std::int64_t row, std::int64_t q_len, std::int64_t kv_len)>;

inline std::int64_t sees_all(std::int64_t, std::int64_t, std::int64_t kv_len) { return kv_len; }
inline std::int64_t sees_causal(std::int64_t row, std::int64_t q_len, std::int64_t kv_len) {
  return row + kv_len - q_len + 1;
}

inline void attend_plainly(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out,
                           const Offsets& q_offsets, const Offsets& kv_offsets,
                           const Visible& visible) {
  const double sm_scale = 1.0 / std::sqrt(static_cast<double>(q.head_dim()));
  const std::int64_t group = q.heads() / k.heads();
  for (std::size_t i = 0; i + 1 < q_offsets.size(); ++i) {
    const std::int64_t q_len = q_offsets[i + 1] - q_offsets[i];
    const std::int64_t kv_len = kv_offsets[i + 1] - kv_offsets[i];
    for (std::int64_t row = 0; row < q_len; ++row) {
      for (std::int64_t head = 0; head < q.heads(); ++head) {
        const std::int64_t token = q_offsets[i] + row;
        std::vector<double> sums(static_cast<std::size_t>(q.head_dim()), 0.0);
        double total = 0.0;
        for (std::int64_t key = 0; key < visible(row, q_len, kv_len); ++key) {
          const std::int64_t kv_token = kv_offsets[i] + key;
          double score = 0.0;
          for (std::int64_t d = 0; d < q.head_dim(); ++d) {
            score += static_cast<double>(q.at(token, head, d)) * k.at(kv_token, head / group, d);
          }
          const double weight = std::exp(sm_scale * score);
          total += weight;
          for (std::int64_t d = 0; d < q.head_dim(); ++d) {
            sums[static_cast<std::size_t>(d)] += weight * v.at(kv_token, head / group, d);
          }
        }
        for (std::int64_t d = 0; d < q.head_dim(); ++d) {
          out.values[static_cast<std::size_t>((token * q.heads() + head) * q.head_dim() + d)] =
              total == 0.0 ? 0.0F : static_cast<float>(sums[static_cast<std::size_t>(d)] / total);
        }
      }
    }
  }
}

// Values lie in [-1, 1): fp32 arithmetic is exact to a few units in the last place of 1.
inline void expect_close(const Tensor& came, const Tensor& expected) {
  ASSERT_EQ(came.values.size(), expected.values.size());
  double worst = 0.0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < came.values.size(); ++i) {
    ASSERT_TRUE(std::isfinite(came.values[i])) << "element " << i;
    const double difference =
        std::abs(static_cast<double>(came.values[i]) - static_cast<double>(expected.values[i]));
    if (difference > worst) {
      worst = difference;
      where = i;
    }
  }
  EXPECT_LT(worst, 1e-5) << "element " << where << ": " << came.values[where] << " against "
                         << expected.values[where];
}

}  // namespace ragged::test
