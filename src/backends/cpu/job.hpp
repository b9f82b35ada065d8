#pragma once

// One run, and its work items as plain pointers: what the planner's ids mean to a kernel.

#include <atomic>
#include <cstdint>

#include <ragged/run.hpp>

#include "backends/contract.hpp"
#include "shapes.hpp"
#include "sources.hpp"

namespace ragged::cpu {

// One call of Backend::run, shared by its workers.
struct Job {
  const Plan* plan = nullptr;
  const RunArguments* arguments = nullptr;
  ScratchShape scratch;
  std::size_t worker_bytes = 0;  // of the workspace, for each worker
  // Query heads and rows of one item on the matrix tiles; 0 where they are not used.
  std::int64_t matrix_rows = 0;
  std::int64_t claim = 1;       // items that a worker takes at once
  std::int64_t band_bytes = 0;  // that are fetched ahead together, at most (band.hpp)
  std::int64_t band_heads = 1;  // key heads of a band divide this, as it divides a claim
  int abreast = 1;              // heads that may walk together, at most (abreast.hpp)
  bool stream = false;          // write the outputs past the caches
  std::atomic<std::int64_t> next{0};
};

// One work item: rows of one segment for the query heads of one key head. Row r is query token
// r / group of the unit, head r % group of the group.
template <class T>
struct Item {
  KeySources<T> keys;
  const T* q = nullptr;  // row 0
  T* out = nullptr;
  float* lse = nullptr;                    // null: not asked for
  std::ptrdiff_t q_token = 0, q_head = 0;  // strides, elements
  std::ptrdiff_t out_token = 0, out_head = 0;
  std::ptrdiff_t lse_token = 0, lse_head = 0;
  std::int64_t q_len = 0;        // of the segment
  std::int64_t kv_len = 0;       // of the segment, prefix included
  std::int64_t first_token = 0;  // of the unit, within the segment
  std::int64_t rows = 0;
  int group = 1;
  Mask mask;
  Variant variant = Variant::packed;

  [[nodiscard]] const T* q_row(std::int64_t r) const noexcept {
    return q + r / group * q_token + r % group * q_head;
  }
  [[nodiscard]] T* out_row(std::int64_t r) const noexcept {
    return out + r / group * out_token + r % group * out_head;
  }
  [[nodiscard]] float* lse_at(std::int64_t r) const noexcept {
    return lse + r / group * lse_token + r % group * lse_head;
  }
  // One past the last key that row r sees.
  [[nodiscard]] std::int64_t end_of(std::int64_t r) const noexcept {
    return visible_end(mask, first_token + r / group, q_len, kv_len);
  }
  // Keys that some row of the item sees.
  [[nodiscard]] std::int64_t end() const noexcept { return rows > 0 ? end_of(rows - 1) : 0; }
};

// Rows of one head of a tensor from row `token` on.
template <class T>
RowRange<T> rows_of(const TensorView& view, std::int64_t token, std::int64_t head) noexcept {
  return {static_cast<const T*>(view.data) + token * view.strides[0] + head * view.strides[1],
          view.strides[0]};
}

// Item `id` of the plan: units first, then key heads.
template <class T>
Item<T> item_of(const Job& job, std::int64_t id) noexcept {
  const Plan& plan = *job.plan;
  const RunArguments& args = *job.arguments;
  const WorkUnit& unit = plan.units[static_cast<std::size_t>(id / plan.items_per_unit)];
  const std::int64_t kv_head = id % plan.items_per_unit;
  const int group = plan.problem.group();
  const std::int64_t head = kv_head * group;
  const std::int64_t token = plan.layouts.q.begin(unit.segment) + unit.row_begin;

  Item<T> item;
  item.q =
      static_cast<const T*>(args.q.data) + token * args.q.strides[0] + head * args.q.strides[1];
  item.q_token = args.q.strides[0];
  item.q_head = args.q.strides[1];
  item.out =
      static_cast<T*>(args.out.data) + token * args.out.strides[0] + head * args.out.strides[1];
  item.out_token = args.out.strides[0];
  item.out_head = args.out.strides[1];
  if (args.lse.data != nullptr) {
    item.lse = args.lse.data + token * args.lse.strides[0] + head * args.lse.strides[1];
    item.lse_token = args.lse.strides[0];
    item.lse_head = args.lse.strides[1];
  }
  item.q_len = plan.layouts.q.length(unit.segment);
  item.kv_len = plan.layouts.kv_length(unit.segment);
  item.first_token = unit.row_begin;
  item.rows = std::int64_t{unit.rows} * group;
  item.group = group;
  item.mask = mask_of(plan.problem);
  item.variant = static_cast<Variant>(plan.tiles.rules[unit.rule].tile.variant);

  const std::int64_t fresh = plan.layouts.keys().begin(unit.segment);
  if (plan.problem.two_sources) {
    const std::int64_t prefix = plan.layouts.prefix.begin(unit.segment);
    item.keys.k[0] = rows_of<T>(args.prefix_k, prefix, kv_head);
    item.keys.v[0] = rows_of<T>(args.prefix_v, prefix, kv_head);
    item.keys.first_count = plan.layouts.prefix.length(unit.segment);
  }
  item.keys.k[1] = rows_of<T>(args.k, fresh, kv_head);
  item.keys.v[1] = rows_of<T>(args.v, fresh, kv_head);
  return item;
}

}  // namespace ragged::cpu
