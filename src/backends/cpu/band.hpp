#pragma once

// Bands: neighbouring key heads of one short segment, fetched ahead together. The heads of a token
// lie side by side, so that a band is read in runs which the processor's own prefetch follows; one
// head is a few lines of every page.

#include <algorithm>
#include <cstdint>

#include "job.hpp"
#include "prefetch.hpp"
#include "shapes.hpp"

namespace ragged::cpu {

// What one item fetches: its share of the rows of a band.
struct BandShare {
  static constexpr int kMaxSpans = 4;  // queries, keys, values, outputs
  Span spans[kMaxSpans];
  int count = 0;

  // Adds share `share` of `shares` of `rows` rows, from the cache line on in which they begin.
  void add(const void* first, std::int64_t row_bytes, std::ptrdiff_t stride_bytes,
           std::int64_t rows, std::int64_t share, std::int64_t shares) noexcept {
    const std::int64_t begin = rows * share / shares;
    const std::int64_t end = rows * (share + 1) / shares;
    if (begin == end) return;
    const char* at = static_cast<const char*>(first) + begin * stride_bytes;
    const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) % 64);
    // Rows without a gap stay so: they are fetched as one.
    const std::int64_t bytes = row_bytes == stride_bytes ? row_bytes : row_bytes + past;
    spans[count++] = {at - past, bytes, stride_bytes, end - begin};
  }
};

// Whether the heads of a token lie side by side.
inline bool heads_adjoin(const TensorView& view) noexcept {
  return view.strides[1] == view.shape[2];
}

// Key heads of each band of a unit; 1: its items are fetched one by one.
inline std::int64_t band_heads(const Job& job, const WorkUnit& unit) noexcept {
  const Plan& plan = *job.plan;
  const RunArguments& args = *job.arguments;
  const std::int64_t tokens = plan.layouts.q.length(unit.segment);
  if (unit.rows != tokens || plan.problem.two_sources || !heads_adjoin(args.q) ||
      !heads_adjoin(args.k) || !heads_adjoin(args.v) || !heads_adjoin(args.out)) {
    return 1;
  }
  const std::int64_t row_bytes = plan.problem.head_dim * size_bytes(plan.problem.dtype);
  const std::int64_t rows = tokens * plan.problem.group() * (job.stream ? 1 : 2) +
                            2 * plan.layouts.kv_length(unit.segment);
  const std::int64_t most = job.band_bytes / (row_bytes * std::max<std::int64_t>(rows, 1));
  return largest_divisor(job.band_heads, std::min(most, job.band_heads));
}

// Share `share` of `shares` of the band that begins with item `first`; nothing of a unit that is
// not cut into bands, whose rows may be any number.
template <class T>
BandShare share_of_band(const Job& job, std::int64_t first, std::int64_t share,
                        std::int64_t shares) noexcept {
  const auto unit = static_cast<std::size_t>(first / job.plan->items_per_unit);
  const std::int64_t heads = band_heads(job, job.plan->units[unit]);
  BandShare out;
  if (heads == 1) return out;
  const Item<T> item = item_of<T>(job, first);
  const auto bytes = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t row_bytes = heads * job.plan->problem.head_dim * bytes;
  const std::int64_t tokens = item.rows / item.group;
  out.add(item.q, row_bytes * item.group, item.q_token * bytes, tokens, share, shares);
  for (const RowRange<T>& fresh : {item.keys.k[1], item.keys.v[1]}) {
    out.add(fresh.first, row_bytes, fresh.stride * bytes, item.kv_len - item.keys.first_count,
            share, shares);
  }
  if (!job.stream) {
    out.add(item.out, row_bytes * item.group, item.out_token * bytes, tokens, share, shares);
  }
  return out;
}

// Of a worker that holds items up to `end` and then those from `after` on: what item `id` fetches.
// False where its unit is not cut into bands.
template <class T>
bool share_of_item(const Job& job, std::int64_t id, std::int64_t end, std::int64_t after,
                   BandShare& out) noexcept {
  if (job.band_heads <= 1) return false;
  const auto unit = static_cast<std::size_t>(id / job.plan->items_per_unit);
  const std::int64_t heads = band_heads(job, job.plan->units[unit]);
  if (heads == 1) return false;
  std::int64_t next = id / heads * heads + heads;
  if (next >= end) next = after;
  out = next < job.plan->num_items() ? share_of_band<T>(job, next, id % heads, heads) : BandShare();
  return true;
}

}  // namespace ragged::cpu
