#pragma once

// Attention over long segments. One warp copies; each of two to four warpgroups holds 64 query rows
// of the block's item and walks its keys:
//
//   scores(0), softmax(0)
//   for each further tile:  scores(tile) and values(tile - 1) run together, then softmax(tile)
//   values(last), epilogue
//
// A ring passes a token from warpgroup to warpgroup: whoever holds it issues its two products, so
// that one warpgroup's products run under the others' softmax.

#include <cstdint>

#include "backends/sm90/epilogue.cuh"
#include "backends/sm90/load.cuh"
#include "backends/sm90/mask.cuh"
#include "backends/sm90/products.cuh"
#include "backends/sm90/ptx.cuh"
#include "backends/sm90/schedule.cuh"
#include "backends/sm90/shape.cuh"
#include "backends/sm90/softmax.cuh"

namespace ragged::sm90 {

template <class Shape>
class Consumer {
  using T = typename Shape::Element;
  static constexpr int kScores = Shape::keys / 2;
  static constexpr int kOut = Shape::dim / 2;

 public:
  __device__ __forceinline__ Consumer(const device::AttentionArgs& args, const TileSplit& split,
                                      SharedAddress shared, const Item* items,
                                      std::uint32_t* failed, uint2* failed_rows, int group)
      : args_(args),
        split_(split),
        shared_(shared),
        items_(items),
        failed_(failed),
        failed_rows_(failed_rows),
        group_(group) {}

  __device__ __forceinline__ void run() {
    if (Shape::consumers > 1 && group_ == Shape::consumers - 1) pass_token();
    for (std::uint32_t sequence = 0;; ++sequence) {
      barrier_wait(shared_ + Barriers<Shape>::queries_full + 8 * queries_.slot(),
                   queries_.parity());
      const Item& item = items_[sequence % 4];
      // fp16 weights always follow the maximum; bf16's where the first tile's did not serve.
      if constexpr (std::is_same_v<T, __half>) {
        compute<true>(item, sequence);
      } else if (item.redo == 0) {
        compute<false>(item, sequence);
      } else {
        compute<true>(item, sequence);
      }
      if (item.last == 0) continue;
      named_sync(kEndBarrier, Shape::consumers * 128 + 32);
      if ((failed_[0] | failed_[1] | failed_[2] | failed_[3]) == 0) return;
      named_sync(kEndBarrier, Shape::consumers * 128 + 32);
    }
  }

 private:
  template <bool kFollows>
  __device__ __forceinline__ void compute(const Item& item, std::uint32_t sequence) {
    const GroupPart part = item.groups[group_];
    float out[kOut];
#pragma unroll
    for (int i = 0; i < kOut; ++i) out[i] = 0.0F;
    RowState state = {{0.0F, 0.0F}, {0.0F, 0.0F}};
    if (part.tiles > 0) {
      walk_keys<kFollows>(item, part, out, state);
    } else {
      release_queries();
    }
    ++queries_.steps;
#pragma unroll 1
    for (int tile = part.tiles; tile < item.tiles; ++tile) skip_step(tile > 0);
    if (part.live > 0) finish<kFollows>(item, sequence, part.live, out, state);
  }

  template <bool kFollows>
  __device__ __forceinline__ void walk_keys(const Item& item, const GroupPart& part,
                                            float (&out)[kOut], RowState& state) {
    const int tiles = part.tiles;
    const SharedAddress queries =
        shared_ + Shape::queries_at +
        (queries_.slot() * Shape::consumers + group_) * Shape::query_bytes;
    float scores[kScores];
    std::uint32_t weights[kScores / 2];

    wait_keys();
    issue_scores<Shape, Shape::keys>(scores, queries, keys());
    products_wait<0>();
    hold(scores);
    release_keys();
    if (tiles == 1) release_queries();
    // The next tile that holds keys which some row does not see.
    int edge = part.edge;
    if (edge == 0) edge = mask_edge(item, 0, scores);
    softmax_step<T, kFollows>(scores, weights, args_.scale_log2, true, state, out);
    hold(weights);
#pragma unroll 1
    for (int tile = 1; tile < tiles; ++tile) {
      wait_keys();
      take_token();
      issue_scores<Shape, Shape::keys>(scores, queries, keys());
      wait_values();
      issue_values<Shape, Shape::keys>(out, weights, values());
      pass_token();
      products_wait<0>();
      hold(scores);
      hold(out);
      release_keys();
      release_values();
      if (tile == tiles - 1) release_queries();
      if (tile == edge) edge = mask_edge(item, tile, scores);
      softmax_step<T, kFollows>(scores, weights, args_.scale_log2, false, state, out);
      hold(weights);
    }
    wait_values();
    issue_values<Shape, Shape::keys>(out, weights, values());
    products_wait<0>();
    hold(out);
    release_values();
  }

  // Masks a tile that holds keys which some row does not see, and clears the rows of its values
  // that are past their source. Returns the next such tile.
  __device__ __forceinline__ int mask_edge(const Item& item, int tile,
                                           float (&scores)[kScores]) const {
    const KeyWalk<Shape::keys> walk(item);
    const int left = walk.keys_left(tile);
    RowPair<int> ends = {left, left};
    if (args_.mask.causal || args_.mask.block_size > 0) {
      const int first_key = walk.first_key(tile);
      const int live = item.groups[group_].live;
      const RowPair<TileRow> rows = rows_of_thread(split_, group_, live);
      const int last_token = group_ * split_.tokens + live - 1;
      ends.low = min(left, row_end(args_, item, min(rows.low.token, last_token)) - first_key);
      ends.high = min(left, row_end(args_, item, min(rows.high.token, last_token)) - first_key);
    }
    mask_scores(scores, ends);
    if (left < Shape::keys) {
      wait_values();
      clear_values<Shape>(values(), left, Shape::keys);
      named_sync(kGroupBarrier + group_, 128);
    }
    return max(tile + 1, item.groups[group_].whole);
  }

  template <bool kFollows>
  __device__ __forceinline__ void finish(const Item& item, std::uint32_t sequence, int live,
                                         const float (&out)[kOut], RowState& state) {
    RowPair<TileRow> rows = rows_of_thread(split_, group_, live);
    finish_sums(state.sum);
    RowPair<float> reference = state.reference;
    if constexpr (kFollows) {
      reference.low *= args_.scale_log2;
      reference.high *= args_.scale_log2;
      // Of a second try only what the first could not finish: a row's bits do not depend on the
      // others of its tile.
      if (item.redo != 0) {
        const bool mine = (item.redo >> threadIdx.x / 32 & 1) != 0;
        const uint2 failed = failed_rows(item.first_try);
        rows.low.live = mine && (failed.x >> threadIdx.x % 32 & 1) != 0;
        rows.high.live = mine && (failed.y >> threadIdx.x % 32 & 1) != 0;
      }
    } else {
      const auto failed = [&](const TileRow& row, float sum) {
        return row.live && !in_range(sum) && row_end(args_, item, row.token) > item.key_begin;
      };
      const bool low = failed(rows.low, state.sum.low);
      const bool high = failed(rows.high, state.sum.high);
      if (__any_sync(~0U, low || high)) note_failed(sequence, low, high);
      rows.low.live &= !low;
      rows.high.live &= !high;
    }
    write_rows<T, Shape::dim>(args_, item, out, state.sum, reference, rows);
  }

  // Rows of this warp that the first try of an item could not finish, a bit for each lane.
  __device__ __forceinline__ uint2& failed_rows(std::uint32_t item) const {
    return failed_rows_[item * Shape::consumers * 4 + threadIdx.x / 32];
  }
  __device__ __forceinline__ void note_failed(std::uint32_t sequence, bool low, bool high) const {
    const unsigned low_lanes = __ballot_sync(~0U, low);
    const unsigned high_lanes = __ballot_sync(~0U, high);
    if (threadIdx.x % 32 == 0) {
      failed_rows(sequence % 4) = make_uint2(low_lanes, high_lanes);
      atomicOr(&failed_[sequence % 4], 1U << threadIdx.x / 32);
    }
  }

  // A step that this warpgroup has no part in: the rings and the token go on.
  __device__ __forceinline__ void skip_step(bool with_token) {
    wait_keys();
    release_keys();
    if (with_token) {
      take_token();
      pass_token();
    }
    wait_values();
    release_values();
  }

  __device__ __forceinline__ SharedAddress keys() const {
    return shared_ + Shape::keys_at + keys_.slot() * Shape::key_bytes;
  }
  __device__ __forceinline__ SharedAddress values() const {
    return shared_ + Shape::values_at + values_.slot() * Shape::key_bytes;
  }
  __device__ __forceinline__ void wait_keys() const {
    barrier_wait(shared_ + Barriers<Shape>::keys_full + 8 * keys_.slot(), keys_.parity());
  }
  __device__ __forceinline__ void wait_values() const {
    barrier_wait(shared_ + Barriers<Shape>::values_full + 8 * values_.slot(), values_.parity());
  }
  __device__ __forceinline__ void release_keys() {
    arrive(Barriers<Shape>::keys_empty + 8 * keys_.slot());
    ++keys_.steps;
  }
  __device__ __forceinline__ void release_values() {
    arrive(Barriers<Shape>::values_empty + 8 * values_.slot());
    ++values_.steps;
  }
  __device__ __forceinline__ void release_queries() const {
    arrive(Barriers<Shape>::queries_empty + 8 * queries_.slot());
  }
  __device__ __forceinline__ void arrive(int barrier) const {
    if (threadIdx.x % 32 == 0) barrier_arrive(shared_ + barrier);
  }
  __device__ __forceinline__ void take_token() const {
    if constexpr (Shape::consumers > 1) named_sync(kRingBarrier + group_, 256);
  }
  __device__ __forceinline__ void pass_token() const {
    if constexpr (Shape::consumers > 1) {
      named_arrive(kRingBarrier + (group_ + 1) % Shape::consumers, 256);
    }
  }

  const device::AttentionArgs& args_;
  const TileSplit& split_;
  const SharedAddress shared_;
  const Item* const items_;
  std::uint32_t* const failed_;
  uint2* const failed_rows_;
  const int group_;
  RingPlace<Shape::query_slots> queries_;
  RingPlace<Shape::stages> keys_;
  RingPlace<Shape::stages> values_;
};

template <class Shape>
__device__ __forceinline__ void init_barriers(SharedAddress shared) {
  using B = Barriers<Shape>;
  constexpr int kWarps = Shape::consumers * 4;
  for (int i = 0; i < Shape::stages; ++i) {
    barrier_init(shared + B::keys_full + 8 * i, 1);
    barrier_init(shared + B::values_full + 8 * i, 1);
    barrier_init(shared + B::keys_empty + 8 * i, kWarps);
    barrier_init(shared + B::values_empty + 8 * i, kWarps);
  }
  for (int i = 0; i < Shape::query_slots; ++i) {
    barrier_init(shared + B::queries_full + 8 * i, 1);
    barrier_init(shared + B::queries_empty + 8 * i, kWarps);
  }
  barrier_init_fence();
}

// Items of rule `rule` of the table. One block a multiprocessor; any number of blocks computes all.
template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    attend_long(const __grid_constant__ TensorMaps maps,
                const __grid_constant__ device::AttentionArgs args,
                const __grid_constant__ TileSplit split, int rule) {
  extern __shared__ std::uint8_t raw[];
  const SharedAddress raw_address = shared_address(raw);
  const SharedAddress shared = (raw_address + 1023) & ~1023U;
  std::uint8_t* const aligned = raw + (shared - raw_address);
  Item* const items = reinterpret_cast<Item*>(aligned + Shape::items_at);
  auto* const failed = reinterpret_cast<std::uint32_t*>(aligned + Shape::failed_at);
  auto* const failed_rows = reinterpret_cast<uint2*>(aligned + Shape::failed_rows_at);

  const device::Unit* const units = args.units + args.table->first_unit[rule];
  const Turns turns(args.table->num_units[rule] * args.head_groups, Shape::consumers);
  if (!turns.has(0)) return;
  if (threadIdx.x == 0) {
    init_barriers<Shape>(shared);
    for (int i = 0; i < Shape::num_items; ++i) failed[i] = 0;
  }
  __syncthreads();

  const int group = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == Shape::consumers) {
    give_registers<Shape::producer_registers>();
    if (threadIdx.x / 32 == Shape::consumers * 4) {
      Loader<Shape>(maps, args, split, shared, items, failed).run(units, turns);
    }
  } else {
    take_registers<Shape::consumer_registers>();
    Consumer<Shape>(args, split, shared, items, failed, failed_rows, group).run();
  }
}

}  // namespace ragged::sm90
