#include "error_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace ragged::tools {
namespace {

double difference(float expected, float got) noexcept {
  if (std::isnan(expected) && std::isnan(got)) return 0.0;
  if (expected == got) return 0.0;  // equal infinities too
  if (!std::isfinite(expected) || !std::isfinite(got)) {
    return std::numeric_limits<double>::infinity();
  }
  return std::abs(static_cast<double>(expected) - static_cast<double>(got));
}

std::string shortest(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.7g", static_cast<double>(value));
  return text;
}

// Half a unit in the last place of 1, relative to a value's own magnitude.
double unit_roundoff(DType dtype) noexcept {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::fp16 ? 0x1p-11 : 0x1p-24;
}

}  // namespace

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1e", value);
  return text;
}

std::string Worst::describe() const {
  if (compared == 0) return "nothing to compare";
  std::string text = scientific(error) + " at segment " + std::to_string(row.segment) + ", token " +
                     std::to_string(row.token) + ", head " + std::to_string(head);
  if (dim >= 0) text += ", dim " + std::to_string(dim);
  return text + " (expected " + shortest(expected) + ", got " + shortest(got) + ")";
}

Worst worst_out(const Expected& expected, const Tensor& out) {
  Worst worst;
  const std::int64_t heads = out.heads();
  const std::int64_t dim = out.head_dim();
  const float* right = expected.out.data();
  for (const RowKeys& row : expected.rows) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t d = 0; d < dim; ++d, ++right) {
        const float got = out.at((row.row * heads + h) * dim + d);
        const double error = difference(*right, got);
        if (error > worst.error || worst.compared == 0) {
          worst = {error, worst.compared, row, h, d, *right, got};
        }
        ++worst.compared;
      }
    }
  }
  return worst;
}

Worst worst_lse(const Expected& expected, const float* lse, std::int64_t heads) {
  Worst worst;
  if (expected.lse.empty()) return worst;
  const float* right = expected.lse.data();
  for (const RowKeys& row : expected.rows) {
    for (std::int64_t h = 0; h < heads; ++h, ++right) {
      const float got = lse[row.row * heads + h];
      const double error = difference(*right, got);
      if (error > worst.error || worst.compared == 0) {
        worst = {error, worst.compared, row, h, -1, *right, got};
      }
      ++worst.compared;
    }
  }
  return worst;
}

Tolerance tolerance_for(DType dtype, const Plain& plain) {
  const double large = std::max(1.0, plain.max_score / 64.0);
  Tolerance tolerance;
  tolerance.lse = (plain.max_score > 32.0 ? 5e-5 : 1e-5) * large;
  if (dtype == DType::fp32) {
    tolerance.out = 1e-5 * large * std::max(1.0, plain.max_out / 4.0);
    tolerance.reason = "fp32";
  } else {
    const double one_rounding = unit_roundoff(dtype) * plain.max_out;
    tolerance.out = std::max(2.0 * plain.out_error, one_rounding);
    const std::string type(to_string(dtype));
    tolerance.reason = 2.0 * plain.out_error >= one_rounding
                           ? "twice a plain " + type + " computation's error"
                           : "one " + type + " rounding of the largest value";
  }
  return tolerance;
}

}  // namespace ragged::tools
