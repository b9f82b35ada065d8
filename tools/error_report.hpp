#pragma once

// How far a result lies from the right answer, where it is worst, and how far it may be.

#include <cstdint>
#include <string>

#include <ragged/layout.hpp>

#include "expected.hpp"

namespace ragged::tools {

// The element that differs most. NaN or Inf where the answer is finite, or the other way round,
// is an error of infinity and comes before every finite one; equal infinities, and NaN for NaN, are
// no error.
struct Worst {
  double error = 0;
  std::int64_t compared = 0;  // elements
  RowKeys row;
  std::int64_t head = 0;
  std::int64_t dim = -1;  // -1: of the LSE
  float expected = 0;
  float got = 0;

  // "3.1e-07 at segment 2, token 17, head 3, dim 5 (expected 0.25, got 0.2500003)".
  [[nodiscard]] std::string describe() const;
};
Worst worst_out(const Expected& expected, const Tensor& out);
// `lse` is [tokens, num_qo_heads].
Worst worst_lse(const Expected& expected, const float* lse, std::int64_t heads);

// What an unfused computation in the case's own type does on some rows: scores, weights and output
// are rounded to the type, sums are fp32. Its error is against the same rows in double precision,
// computed beside it, so that a wrong `Expected` cannot widen its own tolerance.
struct Plain {
  double out_error = 0;  // largest, over elements that are finite; 0 for fp32, which needs none
  double max_score = 0;  // largest |sm_scale * q.k| seen
  double max_out = 0;    // largest |out| in double precision
};
Plain plain_error(const Case& c, const WideInputs& inputs, const std::vector<RowKeys>& rows);

// fp32: 1e-5 for out and lse while the largest score is at most 32. Above, the lse may differ by
// 5e-5, for there fp32 carries a score in steps of 4e-6 and another order of summation moves it by
// several; above 64 both grow with the score. An out beyond 4 counts relative to it.
// bf16, fp16: twice the plain error for out, and at least one rounding of the largest out; the lse
// is fp32 for every type.
struct Tolerance {
  double out = 0;
  double lse = 0;
  std::string reason;  // "fp32", "twice a plain bf16 computation's 1.4e-02", ...
};
Tolerance tolerance_for(DType dtype, const Plain& plain);

// 3.1e-07; "inf", "nan".
std::string scientific(double value);

}  // namespace ragged::tools
