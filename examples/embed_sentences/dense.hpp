#pragma once

// The layers of a transformer that are not attention, on packed rows: fp32, row-major.

#include <cstdint>
#include <span>

namespace embed {

// y[r] = x[r] W^T + b for every row. x: [rows, in]; w: [out, in]; b: [out]; y: [rows, out] with
// y_stride elements from row to row.
void linear(std::int64_t rows, std::span<const float> x, std::span<const float> w,
            std::span<const float> b, float* y, std::int64_t y_stride);

// Each row of x ([rows, weight.size()]) normalized to mean 0 and variance 1, times weight plus
// bias; in place.
void layer_norm(std::span<float> x, std::span<const float> weight, std::span<const float> bias,
                double epsilon);

// x / 2 (1 + erf(x / sqrt 2)), in place.
void gelu(std::span<float> x);

// x += y.
void add(std::span<float> x, std::span<const float> y);

}  // namespace embed
