// A segment's rows depend on that segment alone: not on its neighbours' values, number or order.

#include <gtest/gtest.h>

#include <limits>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "backends/sample_cases.hpp"

namespace ragged::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Writes `value` over one packed row of all heads.
void overwrite_row(std::vector<float>& tensor, std::int64_t row, int heads, int head_dim,
                   float value) {
  const auto width = static_cast<std::size_t>(heads) * static_cast<std::size_t>(head_dim);
  for (std::size_t d = 0; d < width; ++d) tensor[static_cast<std::size_t>(row) * width + d] = value;
}

bool same_row(const Data& data, const Result& a, const Result& b, std::size_t segment,
              std::int64_t row) {
  const auto width =
      static_cast<std::size_t>(data.c.num_qo_heads) * static_cast<std::size_t>(data.c.head_dim);
  const auto first = static_cast<std::size_t>(data.q_begin[segment] + row) * width;
  return std::equal(a.out.begin() + static_cast<std::ptrdiff_t>(first),
                    a.out.begin() + static_cast<std::ptrdiff_t>(first + width),
                    b.out.begin() + static_cast<std::ptrdiff_t>(first));
}

bool all_nan(const Data& data, const Result& result, std::size_t segment, std::int64_t row) {
  for (int head = 0; head < data.c.num_qo_heads; ++head) {
    for (int d = 0; d < data.c.head_dim; ++d) {
      if (out_value(data, result, segment, row, head, d) ==
          out_value(data, result, segment, row, head, d)) {
        return false;
      }
    }
  }
  return true;
}

TARGET_TEST(isolation, edge07_huge_values_in_a_neighbour) {
  for (const DType dtype : sample_dtypes(target)) {
    SCOPED_TRACE(std::string(to_string(dtype)));
    Case c;
    c.name = "edge07";
    c.q_lengths = {104, 104, 104, 78};
    Data data = make_data(c, dtype);
    const Result before = execute(target, data);
    for (std::int64_t row = data.kv_begin[2]; row < data.kv_begin[3]; ++row) {
      overwrite_row(data.v, row, c.num_kv_heads, c.head_dim, dtype == DType::fp16 ? 6e4F : 1e38F);
    }
    const Result after = execute(target, data);
    for (const std::size_t i : {0U, 1U, 3U}) {
      expect_same_segment({data, after, i}, {data, before, i}, "V of segment 2 changed");
    }
  }
}

TARGET_TEST(isolation, edge18_other_segments_poisoned) {
  for (const Case& c : sample_cases(target)) {
    for (const DType dtype : sample_dtypes(target)) {
      SCOPED_TRACE(c.name + " " + std::string(to_string(dtype)));
      const Data data = make_data(c, dtype);
      const Result all = execute(target, data);
      for (std::size_t i = 0; i < c.num_segments(); ++i) {
        How how;
        how.only_segment = static_cast<std::int64_t>(i);
        how.poison = i % 2 == 0 ? Poison::nan : Poison::inf;
        const Result one = execute(target, data, how);
        expect_same_segment({data, one, i}, {data, all, i}, "among poisoned neighbours");
      }
    }
  }
}

TARGET_TEST(isolation, edge23_alone_reversed_and_repeated) {
  for (const Case& c : sample_cases(target)) {
    for (const DType dtype : sample_dtypes(target)) {
      SCOPED_TRACE(c.name + " " + std::string(to_string(dtype)));
      const Data data = make_data(c, dtype);
      const Result all = execute(target, data);
      std::vector<std::size_t> reversed;
      std::vector<std::size_t> repeated;
      for (std::size_t i = c.num_segments(); i-- > 0;) {
        reversed.push_back(i);
        repeated.insert(repeated.end(), {i, i});
        const Data alone = pick_segments(data, {i});
        const Result one = execute(target, alone);
        expect_same_segment({alone, one, 0}, {data, all, i}, "alone");
      }
      const Data backwards = pick_segments(data, reversed);
      const Data twice = pick_segments(data, repeated);
      const Result backwards_result = execute(target, backwards);
      const Result twice_result = execute(target, twice);
      for (std::size_t n = 0; n < reversed.size(); ++n) {
        const SegmentOf want{data, all, reversed[n]};
        expect_same_segment({backwards, backwards_result, n}, want, "in reversed order");
        expect_same_segment({twice, twice_result, 2 * n}, want, "first of two");
        expect_same_segment({twice, twice_result, 2 * n + 1}, want, "second of two");
      }
    }
  }
}

TARGET_TEST(isolation, edge23_neighbour_of_other_length) {
  Case c;
  c.name = "edge23";
  c.kind = AttentionKind::cross;
  c.num_qo_heads = target.slow ? 4 : 32;
  c.num_kv_heads = target.slow ? 1 : 8;
  c.head_dim = 128;
  c.q_lengths = {40, 16, 1, 33};
  c.kv_lengths = {900, 1000, 120, 500};
  for (const DType dtype : sample_dtypes(target)) {
    const Data data = make_data(c, dtype);
    Data shorter = data;
    shorter.c.kv_lengths[0] = 800;
    for (auto* tensor : {&shorter.k, &shorter.v}) {
      const auto width = c.num_kv_heads * c.head_dim;
      tensor->erase(tensor->begin() + 800 * width, tensor->begin() + 900 * width);
    }
    for (std::size_t i = 1; i < shorter.kv_begin.size(); ++i) shorter.kv_begin[i] -= 100;
    const Result a = execute(target, data);
    const Result b = execute(target, shorter);
    for (const std::size_t i : {1U, 2U, 3U}) {
      expect_same_segment({shorter, b, i}, {data, a, i}, "segment 0 has 800 keys, not 900");
    }
  }
}

TARGET_TEST(isolation, edge23_long_segment_with_short_ones_beside) {
  Case c;
  c.name = "edge23_long";
  c.num_qo_heads = 2;
  c.num_kv_heads = 1;
  c.q_lengths.assign(65, 16);
  c.q_lengths[0] = target.slow || target.narrowed ? 500 : 4096;
  for (const bool causal : {false, true}) {
    c.causal = causal;
    for (const DType dtype : sample_dtypes(target)) {
      const Data data = make_data(c, dtype);
      const Data alone = pick_segments(data, {0});
      const Result all = execute(target, data);
      const Result one = execute(target, alone);
      expect_same_segment({data, all, 0}, {alone, one, 0}, "64 short segments beside");
    }
  }
}

TARGET_TEST(isolation, edge21_nan_in_a_query_row) {
  for (const Case& c : sample_cases(target)) {
    for (const DType dtype : sample_dtypes(target)) {
      SCOPED_TRACE(c.name + " " + std::string(to_string(dtype)));
      Data data = make_data(c, dtype);
      const Result clean = execute(target, data);
      const std::size_t segment = c.num_segments() - 1;
      const std::int64_t poisoned = data.q_length(segment) / 2;
      overwrite_row(data.q, data.q_begin[segment] + poisoned, c.num_qo_heads, c.head_dim, kNaN);
      const Result result = execute(target, data);
      for (std::size_t i = 0; i < c.num_segments(); ++i) {
        for (std::int64_t row = 0; row < data.q_length(i); ++row) {
          if (i == segment && row == poisoned) {
            EXPECT_TRUE(all_nan(data, result, i, row)) << "the NaN was lost";
          } else {
            EXPECT_TRUE(same_row(data, result, clean, i, row))
                << "segment " << i << ", row " << row << " changed";
          }
        }
      }
    }
  }
}

// NaN in a key's row, of K or of V, reaches the rows that see the key and no other.
void nan_in_key(const Target& target, bool in_value) {
  for (const Case& c : sample_cases(target)) {
    if (in_value && c.causal && target.may_spread_nan) continue;
    for (const DType dtype : sample_dtypes(target)) {
      SCOPED_TRACE(c.name + " " + std::string(to_string(dtype)));
      Data data = make_data(c, dtype);
      const Result clean = execute(target, data);
      const std::size_t segment = c.num_segments() - 1;
      const std::int64_t key = data.keys(segment) * 2 / 3;
      const bool in_prefix = key < data.prefix_length(segment);
      auto& tensor =
          in_prefix ? (in_value ? data.prefix_v : data.prefix_k) : (in_value ? data.v : data.k);
      const std::int64_t row_of_key =
          in_prefix ? data.prefix_begin[segment] + key
                    : data.kv_begin[segment] + key - data.prefix_length(segment);
      overwrite_row(tensor, row_of_key, c.num_kv_heads, c.head_dim, kNaN);
      const Result result = execute(target, data);
      for (std::size_t i = 0; i < c.num_segments(); ++i) {
        for (std::int64_t row = 0; row < data.q_length(i); ++row) {
          const bool seen = i == segment && sees(c, row, key, data.q_length(i), data.keys(i));
          if (seen) {
            EXPECT_TRUE(all_nan(data, result, i, row)) << "row " << row << " sees it and lost it";
          } else {
            EXPECT_TRUE(same_row(data, result, clean, i, row))
                << "segment " << i << ", row " << row << " changed";
          }
        }
      }
    }
  }
}

TARGET_TEST(isolation, edge21_nan_in_a_key_row) { nan_in_key(target, false); }
TARGET_TEST(isolation, edge21_nan_in_a_value_row) { nan_in_key(target, true); }

TARGET_TEST(isolation, edge14_values_of_later_blocks) {
  for (const std::int64_t block_size : {7, 16, 50}) {
    Case c;
    c.name = "edge14_later_blocks";
    c.kind = AttentionKind::block_causal;
    c.block_size = block_size;
    c.num_qo_heads = 4;
    c.num_kv_heads = 2;
    c.q_lengths = {30, 211};
    for (const DType dtype : sample_dtypes(target)) {
      SCOPED_TRACE(std::to_string(block_size) + " " + std::string(to_string(dtype)));
      Data data = make_data(c, dtype);
      const Result before = execute(target, data);
      const std::int64_t changed = 2 * block_size + block_size / 2;  // within block 2
      overwrite_row(data.v, data.kv_begin[1] + changed, c.num_kv_heads, c.head_dim, 3.0F);
      const Result after = execute(target, data);
      expect_same_segment({data, after, 0}, {data, before, 0}, "the other span");
      for (std::int64_t row = 0; row < data.q_length(1); ++row) {
        EXPECT_EQ(same_row(data, after, before, 1, row), row < 2 * block_size) << "row " << row;
      }
    }
  }
}

TARGET_TEST(isolation, edge14_block_1_is_causal_and_a_large_one_is_full) {
  for (const bool causal : {false, true}) {
    Case block;
    block.name = "edge14_equals";
    block.kind = AttentionKind::block_causal;
    block.block_size = causal ? 1 : 90;
    block.q_lengths = {90, 0, 33};
    for (const DType dtype : sample_dtypes(target)) {
      SCOPED_TRACE(std::string(causal ? "causal " : "full ") + std::string(to_string(dtype)));
      const Data data = make_data(block, dtype);
      Data plain = data;
      plain.c.kind = AttentionKind::self;
      plain.c.block_size = 0;
      plain.c.causal = causal;
      expect_right(data, execute(target, plain));
      expect_right(plain, execute(target, data));
    }
  }
}

}  // namespace
}  // namespace ragged::test
