#include "backends/truth.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/numbers.hpp"
#include "support/random.hpp"

namespace ragged::test {
namespace {

// Multiply-adds of one case in one dtype that the truth may cost: a few hundredths of a second.
constexpr double kBudget = 1.5e7;

template <typename Sum>
Sum dot(const float* a, const float* b, int count) {
  // Four sums at a time, for speed; count is a multiple of 8.
  Sum sums[4] = {0, 0, 0, 0};
  for (int d = 0; d < count; d += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      sums[lane] += static_cast<Sum>(a[d + lane]) * static_cast<Sum>(b[d + lane]);
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

double sum_of_magnitudes(const float* a, const float* b, int count) {
  double sum = 0.0;
  for (int d = 0; d < count; ++d) sum += static_cast<double>(std::abs(a[d] * b[d]));
  return sum;
}

}  // namespace

bool sees(const Case& c, std::int64_t row, std::int64_t key, std::int64_t q_len,
          std::int64_t kv_len) {
  if (c.kind == AttentionKind::block_causal) return key / c.block_size <= row / c.block_size;
  if (!c.causal) return true;
  return kv_len - 1 - key >= q_len - 1 - row;  // as far from the end as the row, or farther
}

std::vector<RowHead> rows_to_check(const Data& data) {
  const Case& c = data.c;
  double cost = 0;
  std::int64_t pairs = 0;
  for (std::size_t i = 0; i < c.num_segments(); ++i) {
    pairs += data.q_length(i) * c.num_qo_heads;
    cost += static_cast<double>(data.q_length(i)) * static_cast<double>(data.keys(i)) *
            c.num_qo_heads * c.head_dim * 4;
  }
  std::vector<RowHead> rows;
  const auto add = [&](std::size_t segment, std::int64_t row, int head) {
    rows.push_back({segment, row, head});
  };
  if (cost <= kBudget && (c.sampled_rows == 0 || pairs <= c.sampled_rows)) {
    for (std::size_t i = 0; i < c.num_segments(); ++i) {
      for (std::int64_t row = 0; row < data.q_length(i); ++row) {
        for (int head = 0; head < c.num_qo_heads; ++head) add(i, row, head);
      }
    }
    return rows;
  }
  const auto affordable =
      static_cast<std::int64_t>(kBudget / (cost / static_cast<double>(pairs))) + 16;
  const std::int64_t count = c.sampled_rows > 0 ? c.sampled_rows : affordable;
  Random random(seed_of(c.name) + 17);
  // Ends of the first and last segments that have rows, and of some between.
  std::vector<std::size_t> filled;
  for (std::size_t i = 0; i < c.num_segments(); ++i) {
    if (data.q_length(i) > 0) filled.push_back(i);
  }
  const std::size_t step =
      std::max<std::size_t>(1, filled.size() * 4 / static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < filled.size(); at += step) {
    const std::size_t i = filled[filled.size() - 1 - at];
    const int head = static_cast<int>(random.integer(0, c.num_qo_heads - 1));
    add(i, 0, head);
    add(i, data.q_length(i) - 1, c.num_qo_heads - 1 - head);
  }
  while (static_cast<std::int64_t>(rows.size()) < count) {
    // By packed row, so that long segments get their share.
    const std::int64_t packed = random.integer(0, data.q_begin.back() - 1);
    const auto segment = static_cast<std::size_t>(
        std::upper_bound(data.q_begin.begin(), data.q_begin.end(), packed) - data.q_begin.begin() -
        1);
    add(segment, packed - data.q_begin[segment],
        static_cast<int>(random.integer(0, c.num_qo_heads - 1)));
  }
  return rows;
}

RowTruth row_truth(const Data& data, const RowHead& at) {
  const Case& c = data.c;
  const std::int64_t q_len = data.q_length(at.segment);
  const std::int64_t kv_len = data.keys(at.segment);
  const int kv_head = at.head / (c.num_qo_heads / c.num_kv_heads);
  const double scale = problem_of(c, data.dtype).sm_scale;
  const auto dims = static_cast<std::size_t>(c.head_dim);
  const float* q = data.query(at.segment, at.row, at.head);

  RowTruth truth;
  std::vector<std::int64_t> keys;
  std::vector<double> weights;
  std::vector<float> plain_weights;
  for (std::int64_t key = 0; key < kv_len; ++key) {
    if (!sees(c, at.row, key, q_len, kv_len)) continue;
    const float* k = data.key(at.segment, key, kv_head);
    keys.push_back(key);
    truth.score_terms =
        std::max(truth.score_terms, std::abs(scale) * sum_of_magnitudes(q, k, c.head_dim));
    weights.push_back(dot<double>(q, k, c.head_dim) * scale);
    plain_weights.push_back(
        rounded(data.dtype, dot<float>(q, k, c.head_dim) * static_cast<float>(scale)));
  }

  truth.visible = static_cast<std::int64_t>(keys.size());
  truth.lse = -std::numeric_limits<double>::infinity();
  truth.out.assign(dims, 0.0);
  truth.plain.assign(dims, 0.0F);
  truth.spread.assign(dims, 0.0);
  if (keys.empty()) return truth;

  const double largest = *std::max_element(weights.begin(), weights.end());
  const float plain_largest = *std::max_element(plain_weights.begin(), plain_weights.end());
  double sum = 0.0;
  float plain_sum = 0.0F;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    weights[i] = std::exp(weights[i] - largest);
    sum += weights[i];
    plain_weights[i] = std::exp(plain_weights[i] - plain_largest);
    plain_sum += plain_weights[i];
  }
  truth.lse = largest + std::log(sum);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const float* v = data.value(at.segment, keys[i], kv_head);
    const double weight = weights[i] / sum;
    const float plain_weight = rounded(data.dtype, plain_weights[i] / plain_sum);
    for (std::size_t d = 0; d < dims; ++d) {
      const double term = weight * static_cast<double>(v[d]);
      truth.out[d] += term;
      truth.spread[d] += term * term;
      truth.plain[d] += plain_weight * v[d];
    }
  }
  for (std::size_t d = 0; d < dims; ++d) {
    truth.spread[d] = std::sqrt(truth.spread[d]);
    truth.plain[d] = rounded(data.dtype, truth.plain[d]);
  }
  return truth;
}

}  // namespace ragged::test
