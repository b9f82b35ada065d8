#pragma once

// Attention over segments with few keys: a block holds all keys and values of one head of one
// segment and up to a few tiles of its queries. Everything is asked for at once and computed in one
// pass, with each row's true maximum; many small blocks of a multiprocessor hide each other's
// waits.

#include <cstdint>

#include "backends/sm90/epilogue.cuh"
#include "backends/sm90/mask.cuh"
#include "backends/sm90/products.cuh"
#include "backends/sm90/ptx.cuh"
#include "backends/sm90/resident.cuh"
#include "backends/sm90/schedule.cuh"
#include "backends/sm90/short_shape.cuh"
#include "backends/sm90/softmax.cuh"
#include "backends/sm90/tensor_maps.cuh"

namespace ragged::sm90 {

template <class Shape>
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
      dispatch<kShortRows>((keys + kShortRows - 1) / kShortRows * kShortRows);
    } else {
      compute<kShortRows>();
    }
  }

 private:
  // The products' width is part of their instructions: one way for each number of 16 keys.
  template <int kWidth>
  __device__ __forceinline__ void dispatch(int width) {
    if constexpr (kWidth < Shape::keys) {
      if (width > kWidth) return dispatch<kWidth + kShortRows>(width);
    }
    compute<kWidth>();
  }

  template <int kWidth>
  __device__ __forceinline__ void compute() {
    bool cleared = false;
#pragma unroll 1
    for (int tile = 0; tile * split_.tokens < item_.rows; ++tile) {
      const int first_token = tile * split_.tokens;
      const int live = min(item_.rows - first_token, split_.tokens);
      const RowPair<TileRow> rows = rows_of_thread(split_, tile, live);
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
        mask<kWidth>(scores, rows, first_token + live - 1);
        const RowPair<float> maxima = row_maxima(scores);
        state.reference = {finite_or_zero(maxima.low), finite_or_zero(maxima.high)};
        weigh<T, true>(scores, weights, args_.scale_log2, state.reference, state.sum);
        if (!cleared) {
          clear<kWidth>();
          cleared = true;
        }
        clear_out();  // not before: its registers are the scores' until here
        issue_values<Shape, kWidth>(out, weights, segment_.values());
        products_wait<0>();
        hold(out);
      } else {
        clear_out();
      }
      finish_sums(state.sum);
      const RowPair<float> reference = {state.reference.low * args_.scale_log2,
                                        state.reference.high * args_.scale_log2};
      write_rows<T, Shape::dim>(args_, item_, out, state.sum, reference, rows);
    }
  }

  template <int kWidth>
  __device__ __forceinline__ void mask(float (&scores)[kWidth / 2], const RowPair<TileRow>& rows,
                                       int last_token) const {
    RowPair<int> ends = {item_.key_end, item_.key_end};
    if (args_.mask.causal || args_.mask.block_size > 0) {
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
template <class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    attend_short(const __grid_constant__ TensorMaps maps,
                 const __grid_constant__ device::AttentionArgs args,
                 const __grid_constant__ TileSplit split, int rule) {
  extern __shared__ __align__(1024) std::uint8_t short_shared[];
  const SharedAddress shared = shared_address(short_shared);
  const device::Unit* const units = args.units + args.table->first_unit[rule];
  const int num_items = args.table->num_units[rule] * args.head_groups;
  if (static_cast<int>(blockIdx.x) >= num_items) return;
  if (threadIdx.x == 0) ResidentSegment<Shape>::init(shared);
  __syncthreads();
  std::uint32_t parity = 0;
#pragma unroll 1
  for (auto index = static_cast<int>(blockIdx.x); index < num_items;
       index += static_cast<int>(gridDim.x)) {
    const int unit = index / args.head_groups;
    Item item;
    set_unit<Shape::keys>(item, args, units[unit], index - unit * args.head_groups);
    if (item.rows == 0) continue;
    ShortBlock<Shape>(maps, args, split, shared, item, parity).run();
    if (item.key_end > 0) parity ^= 1;
    __syncthreads();  // all have read what the next segment overwrites
  }
}

}  // namespace ragged::sm90
