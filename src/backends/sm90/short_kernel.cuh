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
                                        const Item& item)
      : maps_(maps), args_(args), split_(split), shared_(shared), item_(item) {}

  __device__ __forceinline__ void run() {
    if (threadIdx.x == 0) {
      barrier_init(queries_and_keys(), 1);
      barrier_init(values(), 1);
      barrier_init_fence();
      load();
    }
    __syncthreads();
    const int keys = item_.key_end;
    if (keys > 0) {
      barrier_wait(queries_and_keys(), 0);
      dispatch<kShortRows>((keys + kShortRows - 1) / kShortRows * kShortRows);
    } else {
      compute<kShortRows>();
    }
  }

 private:
  // Tokens of a copy of queries: 16 rows where whole tokens fill them, else a tile.
  __device__ __forceinline__ int box_tokens() const {
    return kShortRows % split_.heads == 0 ? kShortRows / split_.heads : split_.tokens;
  }

  // One thread sends everything.
  __device__ __forceinline__ void load() const {
    if (item_.key_end == 0) return;
    const int step = box_tokens();
    const int boxes = (item_.rows + step - 1) / step;
    const int key_boxes = (item_.key_end + kShortRows - 1) / kShortRows;
    constexpr int kRowBytes = Shape::panels * Shape::panel_row_bytes;
    barrier_expect(queries_and_keys(),
                   boxes * step * split_.heads * kRowBytes + key_boxes * kShortRows * kRowBytes);
    barrier_expect(values(), key_boxes * kShortRows * kRowBytes);
#pragma unroll 1
    for (int box = 0; box < key_boxes; ++box) {
      send_rows(&maps_.k, Shape::keys_at, queries_and_keys(), box);
    }
#pragma unroll 1
    for (int box = 0; box < boxes; ++box) {
      const int token = box * step;
      const int tile = token / split_.tokens;
      const int row = (token - tile * split_.tokens) * split_.heads;
      const SharedAddress to =
          shared_ + Shape::queries_at + tile * Shape::query_bytes + row * Shape::panel_row_bytes;
#pragma unroll
      for (int panel = 0; panel < Shape::panels; ++panel) {
        copy_box(to + panel * Shape::query_panel_bytes, &maps_.q, queries_and_keys(),
                 panel * Shape::panel, item_.head, item_.q_row + token);
      }
    }
#pragma unroll 1
    for (int box = 0; box < key_boxes; ++box) {
      send_rows(&maps_.v, Shape::values_at, values(), box);
    }
  }

  __device__ __forceinline__ void send_rows(const CUtensorMap* map, int at, SharedAddress barrier,
                                            int box) const {
    const SharedAddress to = shared_ + at + box * kShortRows * Shape::panel_row_bytes;
    const int row = item_.kv_begin + box * kShortRows;
#pragma unroll
    for (int panel = 0; panel < Shape::panels; ++panel) {
      copy_box(to + panel * Shape::key_panel_bytes, map, barrier, panel * Shape::panel, row,
               item_.kv_head);
    }
  }

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
      const RowPair<TileRow> rows = my_rows(tile, live);
      float out[kOut];
      const auto clear_out = [&] {
#pragma unroll
        for (int i = 0; i < kOut; ++i) out[i] = 0.0F;
      };
      RowState state = {{0.0F, 0.0F}, {0.0F, 0.0F}};
      if (item_.key_end > 0) {
        float scores[kWidth / 2];
        std::uint32_t weights[kWidth / 4];
        issue_scores_of<kWidth>(scores, tile);
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
        issue_values_of<kWidth>(out, weights);
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
  __device__ __forceinline__ void issue_scores_of(float (&scores)[kWidth / 2], int tile) const {
    const std::uint64_t q =
        operand<Shape>(shared_ + Shape::queries_at + tile * Shape::query_bytes, 16);
    const std::uint64_t k = operand<Shape>(shared_ + Shape::keys_at, 16);
    products_begin();
    Scores<kWidth>::template start<T>(scores, q, k);
#pragma unroll
    for (int step = 1; step < Shape::panels * Shape::panel / 16; ++step) {
      Scores<kWidth>::template add<T>(scores, q + columns_at<Shape>(step, Shape::query_panel_bytes),
                                      k + columns_at<Shape>(step, Shape::key_panel_bytes));
    }
    products_end();
  }

  template <int kWidth>
  __device__ __forceinline__ void issue_values_of(float (&out)[kOut],
                                                  std::uint32_t (&weights)[kWidth / 4]) const {
    const std::uint64_t v = operand<Shape>(shared_ + Shape::values_at, Shape::key_panel_bytes);
    hold(out);
    hold(weights);
    products_begin();
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      Values<Shape::dim>::template add<T>(out, weights[4 * step], weights[4 * step + 1],
                                          weights[4 * step + 2], weights[4 * step + 3],
                                          v + step * 16 * Shape::panel_row_bytes / 16);
    }
    products_end();
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
    barrier_wait(values(), 0);
    if (item_.key_end == kWidth) return;
    constexpr int kChunks = Shape::panel_row_bytes / 16;
    const int chunks = (kWidth - item_.key_end) * kChunks;
#pragma unroll
    for (int panel = 0; panel < Shape::panels; ++panel) {
      const SharedAddress first = shared_ + Shape::values_at + panel * Shape::key_panel_bytes +
                                  item_.key_end * Shape::panel_row_bytes;
      for (int i = threadIdx.x; i < chunks; i += Shape::threads) store_zeros(first + 16 * i);
    }
    shared_writes_fence();
    __syncthreads();
  }

  __device__ __forceinline__ TileRow tile_row(int row, int tile, int live) const {
    const int token = split_.token(row);
    return {tile * split_.tokens + token, row - token * split_.heads, token < live};
  }
  __device__ __forceinline__ RowPair<TileRow> my_rows(int tile, int live) const {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    return {tile_row(row, tile, live), tile_row(row + 8, tile, live)};
  }

  __device__ __forceinline__ SharedAddress queries_and_keys() const {
    return shared_ + Shape::barriers_at;
  }
  __device__ __forceinline__ SharedAddress values() const {
    return shared_ + Shape::barriers_at + 8;
  }

  const TensorMaps& maps_;
  const device::AttentionArgs& args_;
  const TileSplit& split_;
  const SharedAddress shared_;
  const Item& item_;
};

// A block for each item of rule `rule`; blocks beyond the items end at once.
template <class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    attend_short(const __grid_constant__ TensorMaps maps,
                 const __grid_constant__ device::AttentionArgs args,
                 const __grid_constant__ TileSplit split, int rule) {
  extern __shared__ __align__(1024) std::uint8_t short_shared[];
  const SharedAddress shared = shared_address(short_shared);
  const auto unit_index = static_cast<int>(blockIdx.x / static_cast<unsigned>(args.head_groups));
  if (unit_index >= args.table->num_units[rule]) return;
  const device::Unit& unit = args.units[args.table->first_unit[rule] + unit_index];
  Item item;
  set_unit<Shape::keys>(item, args, unit,
                        static_cast<int>(blockIdx.x) - unit_index * args.head_groups);
  if (item.rows == 0) return;
  ShortBlock<Shape>(maps, args, split, shared, item).run();
}

}  // namespace ragged::sm90
