#pragma once

// Compares results with the truth, and with each other.

#include <string>

#include "backends/step.hpp"
#include "backends/truth.hpp"

namespace ragged::test {

// Adds a failure that names the worst element (segment, row, head, dim, got, want) if any checked
// one is NaN or Inf where the truth is not, or farther from the truth than the type allows. An
// element may be off by twice the worst error of the plain computation among rows of its segment
// with about as many visible keys, and by about one unit in the last place of what is summed there.
void expect_right(const Data& data, const Result& result);

// Adds a failure that names the first element whose bits differ. An empty LSE is not compared.
void expect_same_bits(const Data& data, const Result& got, const Result& want,
                      const std::string& what);

// One segment of one result.
struct SegmentOf {
  const Data& data;
  const Result& result;
  std::size_t segment;
};

// The same for two segments, of one result or of two; nothing else of the results is looked at.
void expect_same_segment(const SegmentOf& got, const SegmentOf& want, const std::string& what);

// The value of one element.
float out_value(const Data& data, const Result& result, std::size_t segment, std::int64_t row,
                int head, int dim);
float lse_value(const Data& data, const Result& result, std::size_t segment, std::int64_t row,
                int head);

}  // namespace ragged::test
