// The plain computation that tolerances of bf16 and fp16 come from: what an unfused attention in
// that type does, written without regard to speed or to the library's kernels.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "error_report.hpp"
#include "numbers.hpp"
#include "parallel.hpp"

namespace ragged::tools {
namespace {

float rounded(DType dtype, float value) noexcept {
  switch (dtype) {
    case DType::bf16:
      return bf16_to_float(float_to_bf16(value));
    case DType::fp16:
      return fp16_to_float(float_to_fp16(value));
    case DType::fp32:
      break;
  }
  return value;
}

// Eight partial sums, so that a compiler may use its vectors.
template <typename Real>
Real dot(const float* a, const float* b, std::int64_t count) noexcept {
  std::array<Real, 8> sums = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      sums[static_cast<std::size_t>(lane)] +=
          static_cast<Real>(a[i + lane]) * static_cast<Real>(b[i + lane]);
    }
  }
  Real rest = 0;
  for (; i < count; ++i) rest += static_cast<Real>(a[i]) * static_cast<Real>(b[i]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) +
         rest;
}

// One head of one row, computed with every intermediate rounded to `dtype` (fp32: not at all) and
// sums in Real.
template <typename Real>
class RowAttention {
 public:
  RowAttention(const Problem& problem, const WideInputs& inputs, DType dtype)
      : problem_(problem), inputs_(inputs), dtype_(dtype) {}

  // Fills out() and max_score().
  void compute(const RowKeys& row, std::int64_t head) {
    const std::int64_t dim = problem_.head_dim;
    const float* q = data(inputs_.q) + (row.row * problem_.num_qo_heads + head) * dim;
    weights_.clear();
    Real top = -std::numeric_limits<Real>::infinity();
    for (std::int64_t key = row.key_begin; key < row.key_end; ++key) {
      const Real score = static_cast<Real>(problem_.sm_scale) *
                         dot<Real>(q, data(inputs_.k) + key_offset(key, head), dim);
      if (std::isfinite(score)) {
        max_score_ = std::max(max_score_, std::abs(static_cast<double>(score)));
      }
      weights_.push_back(to_type(score));
      top = std::max(top, weights_.back());
    }
    Real total = 0;
    for (Real& weight : weights_) total += weight = std::exp(weight - top);
    out_.assign(static_cast<std::size_t>(dim), Real{0});
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const Real weight = to_type(weights_[i] / total);
      const float* v =
          data(inputs_.v) + key_offset(row.key_begin + static_cast<std::int64_t>(i), head);
      for (std::size_t d = 0; d < out_.size(); ++d) out_[d] += weight * static_cast<Real>(v[d]);
    }
    for (Real& value : out_) value = to_type(value);
  }
  [[nodiscard]] const std::vector<Real>& out() const noexcept { return out_; }
  [[nodiscard]] double max_score() const noexcept { return max_score_; }

 private:
  static const float* data(const Tensor& tensor) noexcept {
    return reinterpret_cast<const float*>(tensor.bytes().data());
  }
  [[nodiscard]] std::int64_t key_offset(std::int64_t key, std::int64_t head) const noexcept {
    return (key * problem_.num_kv_heads + head / problem_.group()) * problem_.head_dim;
  }
  [[nodiscard]] Real to_type(Real value) const noexcept {
    return dtype_ == DType::fp32 ? value
                                 : static_cast<Real>(rounded(dtype_, static_cast<float>(value)));
  }

  const Problem& problem_;
  const WideInputs& inputs_;
  DType dtype_;
  double max_score_ = 0;
  std::vector<Real> weights_;
  std::vector<Real> out_;
};

// Takes one head's values in; elements that are not finite say nothing about precision.
void take(const std::vector<double>& right, const std::vector<float>* plain, Plain& result) {
  for (std::size_t d = 0; d < right.size(); ++d) {
    if (!std::isfinite(right[d])) continue;
    result.max_out = std::max(result.max_out, std::abs(right[d]));
    if (plain == nullptr || !std::isfinite((*plain)[d])) continue;
    result.out_error =
        std::max(result.out_error, std::abs(static_cast<double>((*plain)[d]) - right[d]));
  }
}

}  // namespace

Plain plain_error(const Case& c, const WideInputs& inputs, const std::vector<RowKeys>& rows) {
  Plain result;
  std::mutex mutex;
  const DType dtype = c.problem.dtype;
  parallel_for(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    const RowKeys& row = rows[static_cast<std::size_t>(i)];
    RowAttention<double> right(c.problem, inputs, DType::fp32);
    RowAttention<float> plain(c.problem, inputs, dtype);
    Plain mine;
    for (std::int64_t head = 0; head < c.problem.num_qo_heads; ++head) {
      right.compute(row, head);
      if (dtype != DType::fp32) plain.compute(row, head);
      take(right.out(), dtype != DType::fp32 ? &plain.out() : nullptr, mine);
    }
    const std::lock_guard<std::mutex> lock(mutex);
    result.max_score = std::max(result.max_score, right.max_score());
    result.out_error = std::max(result.out_error, mine.out_error);
    result.max_out = std::max(result.max_out, mine.max_out);
  });
  return result;
}

}  // namespace ragged::tools
