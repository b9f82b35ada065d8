#pragma once

// Attention over segments with few keys: a block holds all keys and values of one head of one
// segment and up to a few tiles of its queries. Everything is asked for at once and computed in one
// pass, with each row's true maximum; many small blocks of a multiprocessor hide each other's
// waits.

#include <cstdint>

#include "backends/sm90/epilogue.cuh"
#include "backends/sm90/guard.cuh"
#include "backends/sm90/mask.cuh"
#include "backends/sm90/products.cuh"
#include "backends/sm90/ptx.cuh"
#include "backends/sm90/resident.cuh"
#include "backends/sm90/schedule.cuh"
#include "backends/sm90/short_shape.cuh"
#include "backends/sm90/softmax.cuh"
#include "backends/sm90/tensor_maps.cuh"

namespace ragged::sm90 {

// kHides: a mask hides keys from rows (hides_keys()). What that takes would cost the others an
// eighth of their speed in registers and instructions.
template <class Shape, bool kHides>
class ShortBlock {
  using T = typename Shape::Element;
  static constexpr int kOut = Shape::dim / 2;

 public:
  __device__ __forceinline__ ShortBlock(const TensorMaps& maps, const device::AttentionArgs& args,
                                        const TileSplit& split, SharedAddress shared,
                                        const Item& item, std::uint32_t parity)
      : args_(args),
        split_(split),
        item_(item),
        segment_(maps, split, item, shared),
        parity_(parity) {}

  __device__ __forceinline__ void run() {
    const int keys = item_.key_end;
    if (keys > 0) {
      if (threadIdx.x == 0) segment_.send();
      segment_.wait_queries_and_keys(parity_);
    }
    const int width = max(keys + kShortRows - 1, kShortRows) / kShortRows * kShortRows;
    if constexpr (!kHides) {
      dispatch<kShortRows>(width, false);
      return;
    }
    bool guarded = false;
#pragma unroll 1
    while (!dispatch<kShortRows>(width, guarded)) {
      clear_not_finite<T>(segment_.values(), Shape::key_bytes);
      __syncthreads();
      guarded = true;
    }
    if (guarded) add_what_is_not_finite();
  }

 private:
  // The products' width is part of their instructions: one way for each number of 16 keys.
  template <int kWidth>
  __device__ __forceinline__ bool dispatch(int width, bool guarded) {
    if constexpr (kWidth < Shape::keys) {
      if (width > kWidth) return dispatch<kWidth + kShortRows>(width, guarded);
    }
    return compute<kWidth>(guarded);
  }

  // False: a mask hides keys and some value is not finite (guard.cuh); nothing was written.
  // `guarded`: such values are out of the way.
  template <int kWidth>
  __device__ __forceinline__ bool compute(bool guarded) {
#pragma unroll 1
    for (int tile = 0; tile * split_.tokens < item_.rows; ++tile) {
      float out[kOut];
      const auto clear_out = [&] {
#pragma unroll
        for (int i = 0; i < kOut; ++i) out[i] = 0.0F;
      };
      RowState state = {{0.0F, 0.0F}, {0.0F, 0.0F}};
      if (item_.key_end > 0) {
        float scores[kWidth / 2];
        std::uint32_t weights[kWidth / 4];
        issue_scores<Shape, kWidth>(scores, segment_.queries(tile), segment_.keys());
        products_wait<0>();
        hold(scores);
        mask<kWidth>(scores, tile);
        const RowPair<float> maxima = row_maxima(scores);
        state.reference = {finite_or_zero(maxima.low), finite_or_zero(maxima.high)};
        weigh<T, true>(scores, weights, args_.scale_log2, state.reference, state.sum);
        if (tile == 0) clear<kWidth>();
        clear_out();  // not before: its registers are the scores' until here
        issue_values<Shape, kWidth>(out, weights, segment_.values());
        products_wait<0>();
        hold(out);
        // Every row's sums take in every value, so the first tile shows what any would.
        if constexpr (kHides) {
          if (tile == 0 && !guarded && !finite(out)) return false;
        }
      } else {
        clear_out();
      }
      finish_sums(state.sum);
      int again = tile;  // rows are found again, not kept in registers all the while
      asm volatile("" : "+r"(again));
      const RowPair<float> reference = {state.reference.low * args_.scale_log2,
                                        state.reference.high * args_.scale_log2};
      write_rows<T, Shape::dim>(args_, item_, out, state.sum, reference, rows_of(again));
    }
    return true;
  }

  __device__ __forceinline__ void add_what_is_not_finite() const {
#pragma unroll 1
    for (int tile = 0; tile * split_.tokens < item_.rows; ++tile) {
      add_not_finite<T, Shape::dim>(args_, item_, split_, tile, rows_of(tile));
    }
  }

  // Whether the first tile's rows are, all of them.
  __device__ __forceinline__ bool finite(const float (&out)[kOut]) const {
    const RowPair<TileRow> rows = rows_of(0);
    const RowPair<bool> finite = finite_rows(out);
    const bool bad = (rows.low.live && !finite.low) || (rows.high.live && !finite.high);
    return __syncthreads_or(bad ? 1 : 0) == 0;
  }

  __device__ __forceinline__ RowPair<TileRow> rows_of(int tile) const {
    return rows_of_thread(split_, tile, min(item_.rows - tile * split_.tokens, split_.tokens));
  }

  template <int kWidth>
  __device__ __forceinline__ void mask(float (&scores)[kWidth / 2], int tile) const {
    RowPair<int> ends = {item_.key_end, item_.key_end};
    if constexpr (kHides) {
      const RowPair<TileRow> rows = rows_of(tile);
      const int last_token = min((tile + 1) * split_.tokens, item_.rows) - 1;
      ends.low = row_end(args_, item_, min(rows.low.token, last_token));
      ends.high = row_end(args_, item_, min(rows.high.token, last_token));
    } else if (item_.key_end == kWidth) {
      return;
    }
    mask_scores(scores, ends);
  }

  // Waits for the values and clears the rows past the segment's end.
  template <int kWidth>
  __device__ __forceinline__ void clear() const {
    segment_.wait_values(parity_);
    if (item_.key_end == kWidth) return;
    clear_values<Shape>(segment_.values(), item_.key_end, kWidth);
    __syncthreads();
  }

  const device::AttentionArgs& args_;
  const TileSplit& split_;
  const Item& item_;
  const ResidentSegment<Shape> segment_;
  const std::uint32_t parity_;
};

// Items of rule `rule`, of which blocks take one after the other.
template <class Shape, bool kHides>
__global__ void __launch_bounds__(Shape::threads, kHides ? Shape::blocks - 2 : Shape::blocks)
    attend_short(const __grid_constant__ TensorMaps maps,
                 const __grid_constant__ device::AttentionArgs args,
                 const __grid_constant__ TileSplit split, int rule) {
  extern __shared__ __align__(1024) std::uint8_t short_shared[];
  const SharedAddress shared = shared_address(short_shared);
  const device::Unit* const units = args.units + args.table->first_unit[rule];
  const int num_items = args.table->num_units[rule] * args.head_groups;
  launch_dependents();
  if (static_cast<int>(blockIdx.x) >= num_items) return wait_for_launches_before();
  if (threadIdx.x == 0) ResidentSegment<Shape>::init(shared);
  __syncthreads();
  std::uint32_t parity = 0;
#pragma unroll 1
  for (auto index = static_cast<int>(blockIdx.x); index < num_items;
       index += static_cast<int>(gridDim.x)) {
    const int unit = index / args.head_groups;
    Item item;
    set_unit<Shape::keys>(item, args, units[unit], index - unit * args.head_groups);
    // Kept as they are, not found again from the unit's numbers, which would stay in registers too.
    asm volatile("" : "+r"(item.q_row), "+r"(item.rows), "+r"(item.key_end), "+r"(item.head));
    if (item.rows == 0) continue;
    ShortBlock<Shape, kHides>(maps, args, split, shared, item, parity).run();
    if (item.key_end > 0) parity ^= 1;
    __syncthreads();  // all have read what the next segment overwrites
  }
  wait_for_launches_before();
}

}  // namespace ragged::sm90
