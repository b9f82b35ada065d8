#pragma once

// Times of repeated runs.

#include <chrono>
#include <vector>

namespace ragged::tools {

// Microseconds that `action` takes.
template <typename Action>
double time_us(Action&& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

// The middle value, or the mean of the two in the middle. Precondition: not empty.
double median(std::vector<double> values);
// (upper quartile - lower quartile) / median; 0 for fewer than 4 values.
double spread(std::vector<double> values);

}  // namespace ragged::tools
