#include <algorithm>

#include "backends/contract.hpp"
#include "cut.hpp"
#include "draw.hpp"

namespace ragged::tools {

std::int64_t SegmentPicture::rows() const {
  std::int64_t most = q_length;
  for (const Panel& panel : panels) most = std::max(most, panel.row + panel.rows);
  return most;
}

std::int64_t SegmentPicture::keys() const {
  std::int64_t most = kv_length;
  for (const Panel& panel : panels) most = std::max(most, panel.keys);
  return most;
}

std::vector<SegmentPicture> picture_segments(const Case& c, const Plan& plan, std::int64_t count) {
  const Mask mask = mask_of(plan.problem);
  std::vector<SegmentPicture> pictures;
  for (std::int64_t s = 0; s < std::min(count, plan.layouts.q.num_segments()); ++s) {
    SegmentPicture picture;
    picture.segment = s;
    picture.q_length = plan.layouts.q.length(s);
    picture.kv_length = plan.layouts.kv_length(s);
    if (!c.prefix_lengths.empty()) {
      picture.prefix_length = c.prefix_lengths[static_cast<std::size_t>(s)];
    }
    for (std::int64_t row = 0; row < picture.q_length; ++row) {
      picture.visible_end.push_back(visible_end(mask, row, picture.q_length, picture.kv_length));
    }
    pictures.push_back(std::move(picture));
  }
  for (const WorkUnit& unit : plan.work_units()) {
    if (unit.segment >= static_cast<std::int64_t>(pictures.size())) continue;
    SegmentPicture& picture = pictures[static_cast<std::size_t>(unit.segment)];
    const Tile& tile = plan.tiles.rules[unit.rule].tile;
    const std::int64_t end = unit.row_begin + unit.rows;
    for (std::int64_t row = unit.row_begin; row < end; row += tile.q_rows) {
      // As Plan::waste counts: keys up to the last one that any row of the tile sees.
      const std::int64_t last = std::min<std::int64_t>(row + tile.q_rows, end) - 1;
      const std::int64_t seen = picture.visible_end[static_cast<std::size_t>(last)];
      picture.panels.push_back({.row = row,
                                .rows = rows_computed(tile, end - row),
                                .keys = keys_computed(tile, seen),
                                .key_step = tile.kv_rows,
                                .begins_unit = row == unit.row_begin});
    }
  }
  for (SegmentPicture& picture : pictures) {
    std::sort(picture.panels.begin(), picture.panels.end(),
              [](const auto& a, const auto& b) { return a.row < b.row; });
  }
  return pictures;
}

}  // namespace ragged::tools
