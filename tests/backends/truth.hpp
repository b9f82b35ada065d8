#pragma once

// What is right, computed here and not in the library: dense attention in double precision, with
// the mask decided key by key, and beside it what the same element type's plain computation
// (scores, weights and output each rounded to the type) makes of the same numbers.

#include <vector>

#include "backends/data.hpp"

namespace ragged::test {

struct RowHead {
  std::size_t segment = 0;
  std::int64_t row = 0;  // within the segment
  int head = 0;
};

struct RowTruth {
  std::int64_t visible = 0;  // keys that the row sees
  double lse = 0.0;          // natural logarithm; -inf without a visible key
  // Largest sum of |q * k| of a visible key, after sm_scale: the rounding of a score is relative to
  // it, not to the score.
  double score_terms = 0.0;
  std::vector<double> out;     // [head_dim]
  std::vector<float> plain;    // [head_dim], rounded to the type at every step
  std::vector<double> spread;  // [head_dim], root of the sum of (weight * v)^2: the size of a sum
                               // whose terms have random signs
};

// Whether a row sees a key of its segment (prefix keys come first), from the words of the
// definition.
bool sees(const Case& c, std::int64_t row, std::int64_t key, std::int64_t q_len,
          std::int64_t kv_len);

// All rows and heads of a case if they fit a fixed budget of arithmetic (or c.sampled_rows), else
// first and last rows of segments and a seeded sample.
std::vector<RowHead> rows_to_check(const Data& data);

RowTruth row_truth(const Data& data, const RowHead& at);

}  // namespace ragged::test
