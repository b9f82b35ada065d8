#pragma once

// Few rows over long keys, several heads abreast: all walk a block of keys before any goes on to
// the next, so that memory is read in runs of whole token rows. One head alone reads a few lines of
// every page, which is as slow as reading the whole of it.

#include <algorithm>
#include <cstdint>

#include "band.hpp"
#include "job.hpp"
#include "shapes.hpp"

namespace ragged::cpu {

// Heads that walk abreast, at most: a block of their keys and values (64 dims, fp32) is half a MiB.
inline constexpr int kMaxAbreast = 8;
// Rows of one head, at most: a vector of them.
inline constexpr std::int64_t kAbreastRows = kMaxLanes;

// Whether the tensors hold the heads of a token side by side.
inline bool keys_adjoin(const Plan& plan, const RunArguments& args) noexcept {
  return heads_adjoin(args.k) && heads_adjoin(args.v) &&
         (!plan.problem.two_sources ||
          (heads_adjoin(args.prefix_k) && heads_adjoin(args.prefix_v)));
}

// Items from `id` on, below `end`, that one worker walks abreast: key heads of one unit. 1: alone.
inline int abreast_from(const Job& job, std::int64_t id, std::int64_t end) noexcept {
  if (job.abreast <= 1) return 1;
  const Plan& plan = *job.plan;
  const WorkUnit& unit = plan.units[static_cast<std::size_t>(id / plan.items_per_unit)];
  if (std::int64_t{unit.rows} * plan.problem.group() > kAbreastRows ||
      plan.layouts.kv_length(unit.segment) <= kMaxBlock) {
    return 1;
  }
  const std::int64_t left = std::min(plan.items_per_unit - id % plan.items_per_unit, end - id);
  const std::int64_t groups = (left + job.abreast - 1) / job.abreast;
  return static_cast<int>((left + groups - 1) / groups);
}

// Items [first, first + count) of one unit.
template <class T>
struct Abreast {
  Item<T> items[kMaxAbreast];
  int count = 0;

  Abreast(const Job& job, std::int64_t first, int num) : count(num) {
    for (int i = 0; i < num; ++i) items[i] = item_of<T>(job, first + i);
  }
};

// The rows of keys [begin, end) of `heads` neighbouring heads, of which `first` is the first.
template <class T>
BandShare keys_of_heads(const Item<T>& first, std::int64_t heads, int head_dim, std::int64_t begin,
                        std::int64_t end) noexcept {
  BandShare out;
  const auto bytes = static_cast<std::int64_t>(sizeof(T));
  while (begin < end) {
    const KeyPiece piece = first.keys.piece(begin, end);
    for (const RowRange<T>& rows : {first.keys.k[piece.source], first.keys.v[piece.source]}) {
      out.add(rows.row(piece.begin), heads * head_dim * bytes, rows.stride * bytes, piece.count, 0,
              1);
    }
    begin += piece.count;
  }
  return out;
}

}  // namespace ragged::cpu
