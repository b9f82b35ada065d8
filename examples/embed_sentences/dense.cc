#include "dense.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>

namespace embed {

void linear(std::int64_t rows, std::span<const float> x, std::span<const float> w,
            std::span<const float> b, float* y, std::int64_t y_stride) {
  const auto out = static_cast<std::int64_t>(b.size());
  const std::int64_t in = static_cast<std::int64_t>(w.size()) / out;
  for (std::int64_t r = 0; r < rows; ++r) std::copy(b.begin(), b.end(), y + r * y_stride);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(rows),
              static_cast<blasint>(out), static_cast<blasint>(in), 1.0F, x.data(),
              static_cast<blasint>(in), w.data(), static_cast<blasint>(in), 1.0F, y,
              static_cast<blasint>(y_stride));
}

void layer_norm(std::span<float> x, std::span<const float> weight, std::span<const float> bias,
                double epsilon) {
  const std::size_t width = weight.size();
  for (std::size_t begin = 0; begin < x.size(); begin += width) {
    const std::span<float> row = x.subspan(begin, width);
    double sum = 0.0;
    for (const float value : row) sum += value;
    const double mean = sum / static_cast<double>(width);
    double squares = 0.0;
    for (const float value : row) squares += (value - mean) * (value - mean);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::size_t i = 0; i < width; ++i) {
      row[i] = static_cast<float>((row[i] - mean) * scale) * weight[i] + bias[i];
    }
  }
}

void gelu(std::span<float> x) {
  constexpr float kInverseSqrt2 = 0.70710678F;
  for (float& value : x) value = 0.5F * value * (1.0F + std::erf(value * kInverseSqrt2));
}

void add(std::span<float> x, std::span<const float> y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace embed
