#pragma once

// The numbers of one case in one dtype: packed end to end, without strides, gaps or poison. Floats
// that the dtype holds exactly.

#include <vector>

#include "backends/case.hpp"

namespace ragged::test {

struct Data {
  Case c;
  DType dtype = DType::fp32;
  std::vector<float> q;  // [sum of q_lengths, num_qo_heads, head_dim]
  std::vector<float> k;  // [sum of key_lengths, num_kv_heads, head_dim]
  std::vector<float> v;
  std::vector<float> prefix_k;  // [sum of prefix_lengths, num_kv_heads, head_dim]
  std::vector<float> prefix_v;
  // First packed row of each segment, and the total as the last entry.
  std::vector<std::int64_t> q_begin;
  std::vector<std::int64_t> kv_begin;
  std::vector<std::int64_t> prefix_begin;  // zeros without two sources

  [[nodiscard]] std::int64_t q_length(std::size_t segment) const {
    return q_begin[segment + 1] - q_begin[segment];
  }
  [[nodiscard]] std::int64_t prefix_length(std::size_t segment) const {
    return prefix_begin[segment + 1] - prefix_begin[segment];
  }
  // Prefix and fresh keys together.
  [[nodiscard]] std::int64_t keys(std::size_t segment) const {
    return prefix_length(segment) + kv_begin[segment + 1] - kv_begin[segment];
  }
  // Key and value rows of a segment, prefix first: [head_dim] floats.
  [[nodiscard]] const float* key(std::size_t segment, std::int64_t index, int kv_head) const {
    return row_of(prefix_k, k, segment, index, kv_head);
  }
  [[nodiscard]] const float* value(std::size_t segment, std::int64_t index, int kv_head) const {
    return row_of(prefix_v, v, segment, index, kv_head);
  }
  [[nodiscard]] const float* query(std::size_t segment, std::int64_t row, int head) const {
    return q.data() + ((q_begin[segment] + row) * c.num_qo_heads + head) * c.head_dim;
  }

 private:
  [[nodiscard]] const float* row_of(const std::vector<float>& prefix,
                                    const std::vector<float>& fresh, std::size_t segment,
                                    std::int64_t index, int kv_head) const {
    const std::int64_t first = prefix_length(segment);
    const bool in_prefix = index < first;
    const std::int64_t row =
        in_prefix ? prefix_begin[segment] + index : kv_begin[segment] + index - first;
    return (in_prefix ? prefix : fresh).data() + (row * c.num_kv_heads + kv_head) * c.head_dim;
  }
};

// The same numbers for the same case, dtype and seed everywhere.
Data make_data(const Case& c, DType dtype, std::uint64_t seed = 0);

// The chosen segments alone, in that order.
Data pick_segments(const Data& data, const std::vector<std::size_t>& segments);

}  // namespace ragged::test
