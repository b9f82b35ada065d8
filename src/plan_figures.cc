// Figures of a plan that its lengths alone decide: work, traffic, and what the tiles do in vain.

#include <algorithm>

#include "backends/contract.hpp"
#include "cut.hpp"
#include "work_list.hpp"

namespace ragged {

double Plan::flops() const {
  const Mask mask = mask_of(problem);
  double scores = 0.0;
  for_segments(layouts, [&](std::int64_t, std::int64_t q_len, std::int64_t kv_len) {
    scores += visible_scores(mask, 0, q_len, q_len, kv_len);
  });
  return 4.0 * scores * problem.num_qo_heads * problem.head_dim;
}

double Plan::bytes() const {
  const double q_and_out =
      2.0 * static_cast<double>(layouts.q.total_tokens()) * problem.num_qo_heads;
  const double k_and_v = 2.0 * static_cast<double>(total_kv_tokens(layouts)) * problem.num_kv_heads;
  return (q_and_out + k_and_v) * problem.head_dim * static_cast<double>(size_bytes(problem.dtype));
}

Waste Plan::waste() const {
  const Mask mask = mask_of(problem);
  Waste waste;
  for_segments(layouts, [&](std::int64_t, std::int64_t q_len, std::int64_t kv_len) {
    const Tile& tile = tiles.rules[tile_rule(tiles, q_len, kv_len)].tile;
    const std::int64_t unit_rows = rows_per_unit(tile, q_len, units_of(tile, q_len));
    waste.rows_useful += q_len;
    waste.scores_useful += visible_scores(mask, 0, q_len, q_len, kv_len);
    for (std::int64_t unit = 0; unit < q_len; unit += unit_rows) {
      const std::int64_t end = std::min(unit + unit_rows, q_len);
      for (std::int64_t row = unit; row < end; row += tile.q_rows) {
        // A tile walks the keys in steps to the last one that any of its rows sees.
        const std::int64_t last = std::min(row + tile.q_rows, end) - 1;
        const std::int64_t keys = visible_end(mask, last, q_len, kv_len);
        const std::int64_t rows = rows_computed(tile, end - row);
        waste.rows_computed += rows;
        waste.scores_computed +=
            static_cast<double>(keys_computed(tile, keys)) * static_cast<double>(rows);
      }
    }
  });
  return waste;
}

}  // namespace ragged
