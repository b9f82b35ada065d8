#pragma once

// A plan as a picture: queries down, keys across, one field for each segment.

#include <cstdint>
#include <string>
#include <vector>

#include "case.hpp"

namespace ragged::tools {

// What the tiles of a plan do with one segment, in tokens from the segment's start.
struct SegmentPicture {
  std::int64_t segment = 0;
  std::int64_t q_length = 0;
  std::int64_t kv_length = 0;
  std::int64_t prefix_length = 0;  // the first keys; 0 where there is no prefix apart
  // Rows [row, row + rows) are computed together over keys [0, keys); both may lie beyond the
  // segment.
  struct Panel {
    std::int64_t row = 0;
    std::int64_t rows = 0;
    std::int64_t keys = 0;
    std::int64_t key_step = 1;
    bool begins_unit = false;
  };
  std::vector<Panel> panels;
  // One past the last key that each row sees.
  std::vector<std::int64_t> visible_end;

  // Rows and keys of the field: the segment and whatever its tiles compute beyond it.
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::int64_t keys() const;
};

// The first `count` segments of the plan.
std::vector<SegmentPicture> picture_segments(const Case& c, const Plan& plan, std::int64_t count);

// The picture as SVG, about 1000 pixels wide, with title, axes, legend and the share of waste.
std::string draw(const Case& c, const Plan& plan, std::int64_t most_segments);

}  // namespace ragged::tools
