#include "backends/data.hpp"

#include <cmath>

#include "support/numbers.hpp"
#include "support/random.hpp"

namespace ragged::test {
namespace {

std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& lengths, std::size_t count) {
  std::vector<std::int64_t> begins(count + 1, 0);
  for (std::size_t i = 0; i < lengths.size(); ++i) begins[i + 1] = begins[i] + lengths[i];
  return begins;
}

std::vector<float> normals(std::int64_t rows, int heads, int head_dim, DType dtype, float factor,
                           Random& random) {
  std::vector<float> values(static_cast<std::size_t>(rows * heads * head_dim));
  for (float& value : values) value = rounded(dtype, factor * random.normal());
  return values;
}

// Calls set(row of k, key index within its segment, keys of the segment) for every key row.
template <typename Set>
void for_each_key(Data& data, const Set& set) {
  const auto width = static_cast<std::size_t>(data.c.num_kv_heads * data.c.head_dim);
  const auto part = [&](std::vector<float>& k, const std::vector<std::int64_t>& begin,
                        bool behind_prefix) {
    for (std::size_t i = 0; i + 1 < begin.size(); ++i) {
      for (std::int64_t row = begin[i]; row < begin[i + 1]; ++row) {
        const std::int64_t index = row - begin[i] + (behind_prefix ? data.prefix_length(i) : 0);
        set(k.data() + static_cast<std::size_t>(row) * width, width, index, data.keys(i));
      }
    }
  };
  part(data.prefix_k, data.prefix_begin, false);
  part(data.k, data.kv_begin, true);
}

void fill(std::vector<float>& values, float value) { values.assign(values.size(), value); }

// Scores of about slope * index / keys after sm_scale.
void ramp(Data& data, double slope) {
  const double root = std::sqrt(static_cast<double>(data.c.head_dim));
  for (float& value : data.q) value = rounded(data.dtype, 1.0F + 0.125F * value);
  for_each_key(data, [&](float* row, std::size_t width, std::int64_t index, std::int64_t keys) {
    const double level = slope * static_cast<double>(index) / static_cast<double>(keys) / root;
    for (std::size_t d = 0; d < width; ++d) {
      row[d] = rounded(data.dtype, static_cast<float>(level) + 0.125F * row[d]);
    }
  });
}

void set_values(Data& data) {
  const auto head_dim = static_cast<std::size_t>(data.c.head_dim);
  switch (data.c.values) {
    case Values::normal:
    case Values::peaked:
      break;
    case Values::rising:
      ramp(data, 60.0);
      break;
    case Values::falling:
      ramp(data, -60.0);
      break;
    case Values::equal_scores:
      for_each_key(data, [&](float* row, std::size_t width, std::int64_t, std::int64_t) {
        for (std::size_t d = 0; d < width; ++d) row[d] = 0.25F * static_cast<float>(d % 7) - 0.5F;
      });
      break;
    case Values::minus_524288: {
      // head_dim * 64 * (8192 / head_dim): exact for powers of two.
      fill(data.q, 64.0F);
      fill(data.k, -8192.0F / static_cast<float>(head_dim));
      fill(data.prefix_k, -8192.0F / static_cast<float>(head_dim));
      break;
    }
    case Values::huge:
      fill(data.q, 133120.0F);
      fill(data.k, 133120.0F);
      fill(data.prefix_k, 133120.0F);
      break;
    case Values::plus_minus_1e30:
      fill(data.q, 0.0F);
      for (std::size_t i = 0; i < data.q.size(); i += head_dim) data.q[i] = 1e15F;
      for_each_key(data, [&](float* row, std::size_t width, std::int64_t index, std::int64_t) {
        for (std::size_t d = 0; d < width; ++d) row[d] = 0.0F;
        for (std::size_t d = 0; d < width; d += head_dim) row[d] = index % 2 == 0 ? 1e15F : -1e15F;
      });
      break;
  }
}

}  // namespace

std::vector<DType> all_dtypes() { return {DType::bf16, DType::fp16, DType::fp32}; }

Problem problem_of(const Case& c, DType dtype) {
  Problem problem;
  problem.kind = c.kind;
  problem.num_qo_heads = c.num_qo_heads;
  problem.num_kv_heads = c.num_kv_heads;
  problem.head_dim = c.head_dim;
  problem.sm_scale = c.sm_scale.value_or(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  problem.dtype = dtype;
  problem.causal = c.causal;
  problem.block_size = c.block_size;
  problem.two_sources = c.two_sources();
  return problem;
}

Data make_data(const Case& c, DType dtype, std::uint64_t seed) {
  Data data;
  data.c = c;
  data.dtype = dtype;
  data.q_begin = begins_of(c.q_lengths, c.num_segments());
  data.kv_begin = begins_of(c.key_lengths(), c.num_segments());
  data.prefix_begin = begins_of(c.prefix_lengths, c.num_segments());
  Random random(seed_of(c.name) + seed);
  const float q_factor = c.values == Values::peaked ? 8.0F : 1.0F;
  data.q = normals(data.q_begin.back(), c.num_qo_heads, c.head_dim, dtype, q_factor, random);
  data.k = normals(data.kv_begin.back(), c.num_kv_heads, c.head_dim, dtype, 1.0F, random);
  data.v = normals(data.kv_begin.back(), c.num_kv_heads, c.head_dim, dtype, 1.0F, random);
  data.prefix_k =
      normals(data.prefix_begin.back(), c.num_kv_heads, c.head_dim, dtype, 1.0F, random);
  data.prefix_v =
      normals(data.prefix_begin.back(), c.num_kv_heads, c.head_dim, dtype, 1.0F, random);
  set_values(data);
  return data;
}

Data pick_segments(const Data& data, const std::vector<std::size_t>& segments) {
  Data picked;
  picked.c = data.c;
  picked.dtype = data.dtype;
  const auto pick_lengths = [&](std::vector<std::int64_t>& lengths) {
    if (lengths.empty()) return;
    const std::vector<std::int64_t> all = lengths;
    lengths.clear();
    for (const std::size_t i : segments) lengths.push_back(all[i]);
  };
  pick_lengths(picked.c.q_lengths);
  pick_lengths(picked.c.kv_lengths);
  pick_lengths(picked.c.prefix_lengths);
  picked.q_begin = begins_of(picked.c.q_lengths, segments.size());
  picked.kv_begin = begins_of(picked.c.key_lengths(), segments.size());
  picked.prefix_begin = begins_of(picked.c.prefix_lengths, segments.size());
  const auto pick_rows = [&](const std::vector<float>& from, const std::vector<std::int64_t>& begin,
                             int heads, std::vector<float>& to) {
    const std::int64_t width = std::int64_t{heads} * data.c.head_dim;
    for (const std::size_t i : segments) {
      to.insert(to.end(), from.begin() + begin[i] * width, from.begin() + begin[i + 1] * width);
    }
  };
  pick_rows(data.q, data.q_begin, data.c.num_qo_heads, picked.q);
  pick_rows(data.k, data.kv_begin, data.c.num_kv_heads, picked.k);
  pick_rows(data.v, data.kv_begin, data.c.num_kv_heads, picked.v);
  pick_rows(data.prefix_k, data.prefix_begin, data.c.num_kv_heads, picked.prefix_k);
  pick_rows(data.prefix_v, data.prefix_begin, data.c.num_kv_heads, picked.prefix_v);
  return picked;
}

}  // namespace ragged::test
