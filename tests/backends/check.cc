#include "backends/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <sstream>

#include "support/numbers.hpp"

namespace ragged::test {
namespace {

// fp32: absolute error allowed beside the plain computation's, relative to what is summed.
constexpr double kFp32Relative = 1e-5;
constexpr double kLseRelative = 1e-5;
// Scores whose terms cancel carry the rounding of the terms: above this sum it grows the bounds.
constexpr double kTermsOfOne = 8.0;

std::size_t row_index(const Data& data, std::size_t segment, std::int64_t row, int head) {
  return static_cast<std::size_t>((data.q_begin[segment] + row) * data.c.num_qo_heads + head);
}

float decoded(DType dtype, std::uint32_t bits) {
  if (dtype == DType::fp32) return std::bit_cast<float>(bits);
  const auto narrow = static_cast<std::uint16_t>(bits);
  return dtype == DType::bf16 ? bf16_value(narrow) : fp16_value(narrow);
}

// Rows whose errors are alike: one segment, and a power of two of visible keys.
struct Group {
  double plain_error = 0.0;
  double scale = 0.0;
  double score_terms = 0.0;

  void add(const RowTruth& truth) {
    score_terms = std::max(score_terms, truth.score_terms);
    for (std::size_t d = 0; d < truth.out.size(); ++d) {
      const double error = std::abs(static_cast<double>(truth.plain[d]) - truth.out[d]);
      // Scores beyond the type's range make the plain computation worthless.
      plain_error = std::isfinite(error) ? std::max(plain_error, error) : 1e300;
      scale = std::max({scale, std::abs(truth.out[d]), truth.spread[d]});
    }
  }

  [[nodiscard]] double tolerance(DType dtype) const {
    if (dtype == DType::fp32) {
      return 2.0 * plain_error + kFp32Relative * scale * std::max(1.0, score_terms / kTermsOfOne);
    }
    const double ulp = ulp_of_one(dtype) * std::max(scale, smallest_normal(dtype));
    // The cap keeps the bound meaningful where rounded scores ruin the plain computation.
    return ulp + std::min(2.0 * plain_error, 8.0 * ulp);
  }
};

using GroupKey = std::pair<std::size_t, int>;

GroupKey group_of(const RowHead& at, const RowTruth& truth) {
  return {at.segment, std::bit_width(static_cast<std::uint64_t>(truth.visible))};
}

std::string place(const RowHead& at) {
  std::ostringstream text;
  text << "segment " << at.segment << ", row " << at.row << ", head " << at.head;
  return text.str();
}

// How far off, in units of what is allowed; infinite for a NaN or Inf that should not be there.
double badness(float got, double want, double tolerance) {
  if (std::isfinite(want) && !std::isfinite(got)) return HUGE_VAL;
  if (!std::isfinite(want)) return static_cast<double>(got) == want ? 0.0 : HUGE_VAL;
  const double error = std::abs(static_cast<double>(got) - want);
  if (error == 0.0) return 0.0;
  return tolerance > 0.0 ? error / tolerance : HUGE_VAL;
}

struct Worst {
  double badness = 0.0;
  std::string text;

  void offer(const std::string& what, double is, float got, double want, double tolerance) {
    if (is <= badness) return;
    badness = is;
    std::ostringstream out;
    out.precision(9);
    out << what << ": got " << got << ", want " << want << ", allowed " << tolerance;
    text = out.str();
  }
};

}  // namespace

float out_value(const Data& data, const Result& result, std::size_t segment, std::int64_t row,
                int head, int dim) {
  const std::size_t at =
      row_index(data, segment, row, head) * static_cast<std::size_t>(data.c.head_dim);
  return decoded(data.dtype, result.out[at + static_cast<std::size_t>(dim)]);
}

float lse_value(const Data& data, const Result& result, std::size_t segment, std::int64_t row,
                int head) {
  return std::bit_cast<float>(result.lse[row_index(data, segment, row, head)]);
}

void expect_right(const Data& data, const Result& result) {
  const std::vector<RowHead> rows = rows_to_check(data);
  std::vector<RowTruth> truths;
  std::map<GroupKey, Group> groups;
  truths.reserve(rows.size());
  for (const RowHead& at : rows) {
    truths.push_back(row_truth(data, at));
    groups[group_of(at, truths.back())].add(truths.back());
  }
  Worst out;
  Worst lse;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowHead& at = rows[i];
    const RowTruth& truth = truths[i];
    const double tolerance = groups[group_of(at, truth)].tolerance(data.dtype);
    for (int d = 0; d < data.c.head_dim; ++d) {
      const float got = out_value(data, result, at.segment, at.row, at.head, d);
      const double want = truth.out[static_cast<std::size_t>(d)];
      const double is = badness(got, want, tolerance);
      if (is > out.badness) {
        out.offer(place(at) + ", dim " + std::to_string(d), is, got, want, tolerance);
      }
    }
    if (result.lse.empty()) continue;
    const float got = lse_value(data, result, at.segment, at.row, at.head);
    const double allowed =
        kLseRelative * std::max({1.0, std::abs(truth.lse), truth.score_terms / kTermsOfOne});
    const double is = badness(got, truth.lse, allowed);
    if (is > lse.badness) lse.offer(place(at), is, got, truth.lse, allowed);
  }
  EXPECT_LE(out.badness, 1.0) << "worst element of out: " << out.text;
  EXPECT_LE(lse.badness, 1.0) << "worst element of lse: " << lse.text;
}

void expect_same_segment(const SegmentOf& got, const SegmentOf& want, const std::string& what) {
  const Data& data = got.data;
  const auto width = static_cast<std::size_t>(data.c.head_dim);
  ASSERT_EQ(data.q_length(got.segment), want.data.q_length(want.segment)) << what;
  for (std::int64_t row = 0; row < data.q_length(got.segment); ++row) {
    for (int head = 0; head < data.c.num_qo_heads; ++head) {
      const std::size_t at = row_index(data, got.segment, row, head);
      const std::size_t from = row_index(want.data, want.segment, row, head);
      for (std::size_t d = 0; d < width; ++d) {
        const std::uint32_t a = got.result.out[at * width + d];
        const std::uint32_t b = want.result.out[from * width + d];
        if (a == b) continue;
        ADD_FAILURE() << what << ": out differs in " << place({got.segment, row, head}) << ", dim "
                      << d << ": " << decoded(data.dtype, a) << " against "
                      << decoded(data.dtype, b);
        return;
      }
      if (got.result.lse.empty() || want.result.lse.empty()) continue;
      const auto a = std::bit_cast<float>(got.result.lse[at]);
      const auto b = std::bit_cast<float>(want.result.lse[from]);
      if (got.result.lse[at] == want.result.lse[from]) continue;
      ADD_FAILURE() << what << ": lse differs in " << place({got.segment, row, head}) << ": " << a
                    << " against " << b;
      return;
    }
  }
}

void expect_same_bits(const Data& data, const Result& got, const Result& want,
                      const std::string& what) {
  ASSERT_EQ(got.out.size(), want.out.size()) << what;
  const bool same_lse = got.lse.empty() || want.lse.empty() || got.lse == want.lse;
  if (got.out == want.out && same_lse) return;
  for (std::size_t i = 0; i < data.c.num_segments() && !::testing::Test::HasFailure(); ++i) {
    expect_same_segment({data, got, i}, {data, want, i}, what);
  }
  ADD_FAILURE() << what << ": bits differ";
}

}  // namespace ragged::test
