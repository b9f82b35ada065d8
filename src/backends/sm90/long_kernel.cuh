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
#include "backends/sm90/guard.cuh"
#include "backends/sm90/load.cuh"
#include "backends/sm90/mask.cuh"
#include "backends/sm90/products.cuh"
#include "backends/sm90/ptx.cuh"
#include "backends/sm90/schedule.cuh"
#include "backends/sm90/shape.cuh"
#include "backends/sm90/softmax.cuh"
#include "backends/sm90/team.cuh"

namespace ragged::sm90 {

template <class Shape>
class Consumer {
  using T = typename Shape::Element;
  static constexpr int kScores = Shape::keys / 2;
  static constexpr int kOut = Shape::dim / 2;

 public:
  __device__ __forceinline__ Consumer(const device::AttentionArgs& args, const TileSplit& split,
                                      SharedAddress shared, int group)
      : args_(args), split_(split), shared_(shared), group_(group) {}

  __device__ __forceinline__ void run() {
    if (Shape::consumers > 1 && group_ == Shape::consumers - 1) pass_token();
    for (;; ++items_.steps) {
      barrier_wait(shared_ + Barriers<Shape>::queries_full + 8 * items_.slot(), items_.parity());
      const Item& item = shared_pointer<const Item>(shared_ + Shape::items_at)[items_.steps % 4];
      compute(item);
      if (item.last == 0) continue;
      named_sync(kEndBarrier, Shape::consumers * 128 + 32);
      const std::uint32_t* const notes = &note_of(0);
      if ((notes[0] | notes[1] | notes[2] | notes[3]) == 0) break;
      named_sync(kEndBarrier, Shape::consumers * 128 + 32);
    }
    if (group_ == 0) take_token();  // the one that is left: no barrier ends half arrived
  }

 private:
  __device__ __forceinline__ void compute(const Item& item) {
    if constexpr (Shape::teams) {
      if (item.team != 0) return compute_in_team(item);
    }
    if (item.redo == 0) {
      compute_tile<false>(item);
    } else {
      compute_tile<true>(item);
    }
  }

  // fp16 weights always follow the maximum; bf16's where the first tile's did not serve.
  static constexpr bool kAlwaysFollows = std::is_same_v<T, __half>;

  // kAgain: rows that an earlier try could not finish.
  template <bool kAgain>
  __device__ __forceinline__ void compute_tile(const Item& item) {
    const GroupPart part = item.groups[group_];
    float out[kOut];
#pragma unroll
    for (int i = 0; i < kOut; ++i) out[i] = 0.0F;
    RowState state = {{0.0F, 0.0F}, {0.0F, 0.0F}};
    if (part.tiles > 0) {
      walk_keys<kAgain>(item, part, out, state);
    } else {
      release_queries();
    }
#pragma unroll 1
    for (int tile = part.tiles; tile < item.tiles; ++tile) skip_step(tile > 0);
    if (part.live > 0) finish<kAgain>(item, part.live, out, state);
  }

  template <bool kAgain>
  __device__ __forceinline__ void walk_keys(const Item& item, const GroupPart& part,
                                            float (&out)[kOut], RowState& state) {
    const int tiles = part.tiles;
    const SharedAddress queries = shared_ + Shape::queries_at +
                                  (items_.slot() * Shape::consumers + group_) * Shape::query_bytes;
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
    take_scores<kAgain>(item, 0, scores, weights, state, out);
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
      take_scores<kAgain>(item, tile, scores, weights, state, out);
    }
    wait_values();
    issue_values<Shape, Shape::keys>(out, weights, values());
    products_wait<0>();
    hold(out);
    release_values();
  }

  // This warpgroup's part of a team's item: its own key tiles, and if it is the first, all results.
  __device__ __forceinline__ void compute_in_team(const Item& item) {
    const SharedAddress slot =
        shared_ + Shape::queries_at + items_.slot() * Shape::consumers * Shape::query_bytes;
    float out[kOut];
#pragma unroll
    for (int i = 0; i < kOut; ++i) out[i] = 0.0F;
    RowState state = {{0.0F, 0.0F}, {0.0F, 0.0F}};
    const int tiles = item.tiles;
#pragma unroll 1
    for (int tile = 0; tile < tiles;) {
#pragma unroll 1
      for (; tile < tiles && tile % Shape::consumers != group_; ++tile) skip_step(false);
      if (tile >= tiles) break;
      float scores[kScores];
      std::uint32_t weights[kScores / 2];
      wait_keys();
      issue_scores<Shape, Shape::keys>(scores, slot, keys());
      products_wait<0>();
      hold(scores);
      release_keys();
      if (Shape::team_apart && tile + Shape::consumers >= tiles) release_queries();
      if (KeyWalk<Shape::keys>(item).keys_left(tile) < Shape::keys) mask_edge(item, tile, scores);
      softmax_step<T, true>(scores, weights, args_.scale_log2, tile == group_, state, out);
      hold(weights);
      wait_values();
      issue_values<Shape, Shape::keys>(out, weights, values());
      products_wait<0>();
      hold(out);
      release_values();
      ++tile;
    }
    finish_sums(state.sum);
    if (Shape::team_apart && group_ >= tiles) release_queries();
    using Part = TeamPart<kOut>;
    static_assert(Part::bytes <= Shape::consumers * Shape::query_bytes);
    const SharedAddress stats = shared_ + Shape::team_stats_at;
    const SharedAddress part = Shape::team_apart ? shared_ + Shape::team_part_at : slot;
    constexpr int kThreads = Shape::consumers * 128;
#pragma unroll 1
    for (int other = 1; other < Shape::consumers; ++other) {
      named_sync(kTeamBarrier, kThreads);
      if (group_ == other) Part::store(part, stats, out, state);
      named_sync(kTeamBarrier, kThreads);
      if (group_ == 0) Part::merge(part, stats, out, state, args_.scale_log2);
    }
    if constexpr (!Shape::team_apart) {
      shared_writes_fence();
      release_queries();
    }
    if (group_ != 0) return;
    const RowPair<float> reference = {state.reference.low * args_.scale_log2,
                                      state.reference.high * args_.scale_log2};
    write_rows<T, Shape::dim>(args_, item, out, state.sum, reference,
                              rows_of_thread(split_, 0, item.rows));
  }

  // Scores of a tile to weights, and its values made ready for them.
  template <bool kAgain>
  __device__ __forceinline__ void take_scores(const Item& item, int tile, float (&scores)[kScores],
                                              std::uint32_t (&weights)[kScores / 2],
                                              RowState& state, float (&out)[kOut]) const {
    const float scale = args_.scale_log2;
    if constexpr (kAlwaysFollows || !kAgain) {
      softmax_step<T, kAlwaysFollows>(scores, weights, scale, tile == 0, state, out);
    } else if (item.follows != 0) {
      softmax_step<T, true>(scores, weights, scale, tile == 0, state, out);
    } else {
      softmax_step<T, false>(scores, weights, scale, tile == 0, state, out);
    }
    hold(weights);
    if constexpr (kAgain) {
      if (item.guarded != 0) {
        wait_values();
        clear_not_finite<T>(values(), Shape::key_bytes);
        named_sync(kGroupBarrier + group_, 128);
      }
    }
  }

  // Masks a tile that holds keys which some row does not see, and clears the rows of its values
  // that are past their source. Returns the next such tile.
  __device__ __forceinline__ int mask_edge(const Item& item, int tile,
                                           float (&scores)[kScores]) const {
    const KeyWalk<Shape::keys> walk(item);
    const int left = walk.keys_left(tile);
    RowPair<int> ends = {left, left};
    if (hides_keys(args_)) {
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

  template <bool kAgain>
  __device__ __forceinline__ void finish(const Item& item, int live, const float (&out)[kOut],
                                         RowState& state) {
    RowPair<TileRow> rows = rows_of_thread(split_, group_, live);
    finish_sums(state.sum);
    RowPair<float> reference = state.reference;
    const bool follows = kAlwaysFollows || (kAgain && item.follows != 0);
    if (follows) {
      reference.low *= args_.scale_log2;
      reference.high *= args_.scale_log2;
    }
    // Of a further try only what the one before could not finish: a row's bits do not depend on
    // the others of its tile.
    if constexpr (kAgain) {
      const bool mine = (item.redo >> threadIdx.x / 32 & 1) != 0;
      const uint2 before = failed_rows(item.first_try);
      rows.low.live = mine && (before.x >> threadIdx.x % 32 & 1) != 0;
      rows.high.live = mine && (before.y >> threadIdx.x % 32 & 1) != 0;
    }
    RowPair<bool> failed = {false, false};
    if (!follows) {
      const auto out_of_range = [&](const TileRow& row, float sum) {
        return row.live && !in_range(sum) && row_end(args_, item, row.token) > item.key_begin;
      };
      failed = {out_of_range(rows.low, state.sum.low), out_of_range(rows.high, state.sum.high)};
    }
    bool values = false;
    if constexpr (!kAgain) {
      if (hides_keys(args_)) {
        const RowPair<bool> finite = finite_rows(out);
        const RowPair<bool> bad = {quad_any(rows.low.live && !finite.low),
                                   quad_any(rows.high.live && !finite.high)};
        values = bad.low || bad.high;
        failed.low |= bad.low;
        failed.high |= bad.high;
      }
    }
    if (__any_sync(~0U, failed.low || failed.high)) note_failed(failed, values);
    rows.low.live &= !failed.low;
    rows.high.live &= !failed.high;
    write_rows<T, Shape::dim>(args_, item, out, state.sum, reference, rows);
    if constexpr (kAgain) {
      if (item.guarded != 0) add_not_finite<T, Shape::dim>(args_, item, split_, group_, rows);
    }
  }

  // Rows of this warp that a try of an item could not finish, a bit for each lane.
  __device__ __forceinline__ uint2& failed_rows(std::uint32_t item) const {
    return shared_pointer<uint2>(
        shared_ + Shape::failed_rows_at)[item * Shape::consumers * 4 + threadIdx.x / 32];
  }
  __device__ __forceinline__ std::uint32_t& note_of(std::uint32_t item) const {
    return shared_pointer<std::uint32_t>(shared_ + Shape::failed_at)[item];
  }
  __device__ __forceinline__ void note_failed(RowPair<bool> failed, bool values) const {
    const unsigned low_lanes = __ballot_sync(~0U, failed.low);
    const unsigned high_lanes = __ballot_sync(~0U, failed.high);
    const std::uint32_t why = __any_sync(~0U, values) ? kFailedValues : 0;
    if (threadIdx.x % 32 == 0) {
      failed_rows(items_.steps % 4) = make_uint2(low_lanes, high_lanes);
      atomicOr(&note_of(items_.steps % 4), 1U << threadIdx.x / 32 | why);
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
    arrive(Barriers<Shape>::queries_empty + 8 * items_.slot());
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
  const int group_;
  RingPlace<Shape::query_slots> items_;
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

// Items of these rules of the table. One block a multiprocessor; any number of blocks computes all.
template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    attend_long(const __grid_constant__ TensorMaps maps,
                const __grid_constant__ device::AttentionArgs args,
                const __grid_constant__ TileSplit split, const Rules rules) {
  extern __shared__ std::uint8_t raw[];
  const SharedAddress shared = (shared_address(raw) + 1023) & ~1023U;

  launch_dependents();
  const Work work(args, rules);
  if (!Turns(work.items).has<Shape::consumers>(0)) return wait_for_launches_before();
  if (threadIdx.x == 0) {
    *shared_pointer<Work>(shared + Shape::work_at) = work;
    init_barriers<Shape>(shared);
    auto* const notes = shared_pointer<std::uint32_t>(shared + Shape::failed_at);
    for (int i = 0; i < Shape::num_items; ++i) notes[i] = 0;
  }
  __syncthreads();

  const int group = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == Shape::consumers) {
    give_registers<Shape::producer_registers>();
    if (threadIdx.x / 32 == Shape::consumers * 4) {
      Loader<Shape>(maps, args, split, shared)
          .run(*shared_pointer<const Work>(shared + Shape::work_at));
    }
  } else {
    take_registers<Shape::consumer_registers>();
    Consumer<Shape>(args, split, shared, group).run();
    wait_for_launches_before();
  }
}

}  // namespace ragged::sm90
