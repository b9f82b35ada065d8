// The mask against its definition in words, one row and one key at a time.

#include "visible.hpp"

#include "support.hpp"

namespace ragged {
namespace {

bool sees(const Mask& mask, std::int64_t row, std::int64_t key, std::int64_t q_len,
          std::int64_t kv_len) {
  if (mask.block_size > 0) return key / mask.block_size <= row / mask.block_size;
  return !mask.causal || kv_len - key >= q_len - row;
}

void expect_interval(const Mask& mask, std::int64_t q_len, std::int64_t kv_len) {
  std::vector<double> sums = {0.0};  // of visible keys over rows [0, n)
  std::int64_t before = 0;
  for (std::int64_t row = 0; row < q_len; ++row) {
    const std::int64_t begin = visible_begin(mask, row, q_len, kv_len);
    const std::int64_t end = visible_end(mask, row, q_len, kv_len);
    for (std::int64_t key = 0; key < kv_len; ++key) {
      ASSERT_EQ(begin <= key && key < end, sees(mask, row, key, q_len, kv_len))
          << "causal " << mask.causal << " block " << mask.block_size << " q " << q_len << " kv "
          << kv_len << " row " << row << " key " << key;
    }
    ASSERT_GE(end, before);
    ASSERT_LE(end, kv_len);
    ASSERT_EQ(row < hidden_rows_of(mask, q_len, kv_len), begin == end);
    before = end;
    sums.push_back(sums.back() + static_cast<double>(end - begin));
  }
  for (std::int64_t from = 0; from <= q_len; ++from) {
    for (std::int64_t to = from; to <= q_len; ++to) {
      ASSERT_EQ(visible_scores(mask, from, to, q_len, kv_len),
                sums[static_cast<std::size_t>(to)] - sums[static_cast<std::size_t>(from)])
          << "causal " << mask.causal << " block " << mask.block_size << " q " << q_len << " kv "
          << kv_len << " rows " << from << ".." << to;
    }
  }
}

TEST(Visible, EveryMaskIsItsDefinition) {
  for (std::int64_t q_len = 0; q_len <= 13; ++q_len) {
    for (std::int64_t kv_len = 0; kv_len <= 13; ++kv_len) {
      expect_interval({false, 0}, q_len, kv_len);
      expect_interval({true, 0}, q_len, kv_len);
    }
    for (const std::int64_t block : {1, 2, 3, 5, 12, 13, 14, 100}) {
      expect_interval({false, block}, q_len, q_len);
    }
  }
}

TEST(Visible, LongSpansStayInSixtyFourBits) {
  constexpr std::int64_t kLong = std::int64_t{1} << 48;
  const std::int64_t huge_block = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(visible_end({true, 0}, kLong - 1, kLong, kLong), kLong);
  EXPECT_EQ(visible_end({false, huge_block}, kLong - 1, kLong, kLong), kLong);
  EXPECT_EQ(visible_end({false, kLong - 1}, kLong - 1, kLong, kLong), kLong);
}

}  // namespace
}  // namespace ragged
