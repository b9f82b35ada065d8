#pragma once

// The right answer for some or all rows of a case.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tensors.hpp"

namespace ragged::tools {

// One query row and the keys that it sees, as rows of the packed (joined) keys.
struct RowKeys {
  std::int64_t row = 0;      // of the packed queries
  std::int64_t segment = 0;  // that the row lies in
  std::int64_t token = 0;    // row within the segment
  std::int64_t key_begin = 0;
  std::int64_t key_end = 0;
};

// Which rows to check.
struct CheckRows {
  enum class Kind { automatic, all, none, some } kind = Kind::automatic;
  std::int64_t rows = 0;  // of `some`
};
// "auto", "all", "none" or a count of rows. Throws ragged::Error(invalid_argument).
CheckRows parse_check_rows(std::string_view option, std::string_view text);

// The rows to check, in order. A sample holds the first and the last row of the first, the last and
// the longest segment, and others by the seed. `automatic` is every row while that takes seconds,
// else as many as do.
std::vector<RowKeys> choose_rows(const Case& c, CheckRows which, std::uint64_t seed);

struct Expected {
  std::vector<RowKeys> rows;
  std::vector<float> out;  // [rows, num_qo_heads, head_dim]
  std::vector<float> lse;  // [rows, num_qo_heads]; empty: not known
};

// The reference backend's answer in fp32 for these rows: each row is a step of its own, whose keys
// are the interval that the row sees. Throws unsupported where the backend is not built.
Expected reference_rows(const Case& c, const WideInputs& inputs, std::vector<RowKeys> rows);

}  // namespace ragged::tools
