#pragma once

// Where a thread's rows end: visible.hpp's intervals, cut to one tile of keys.

#include <cstdint>

#include "backends/sm90/schedule.cuh"
#include "device/attention_args.hpp"
#include "visible.hpp"

namespace ragged::sm90 {

// A value for each of a thread's two rows of a 16-row slice: lane / 4 and lane / 4 + 8.
template <class V>
struct RowPair {
  V low, high;
};

// A thread's rows of tile `tile` of a unit, `live` tokens of which are the unit's.
__device__ __forceinline__ RowPair<TileRow> rows_of_thread(const TileSplit& split, int tile,
                                                           int live) {
  const auto row_at = [&](int row) -> TileRow {
    const int token = split.token(row);
    return {tile * split.tokens + token, row - token * split.heads, token < live};
  };
  const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  return {row_at(row), row_at(row + 8)};
}

// Scores of keys that a row does not see become -inf. `ends`: keys of this tile that each row sees.
template <int N>
__device__ __forceinline__ void mask_scores(float (&scores)[N], RowPair<int> ends) {
  const int column = 2 * (threadIdx.x % 4);
  const int low = ends.low - column;
  const int high = ends.high - column;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int key = i / 4 * 8 + i % 2;
    if (key >= (i % 4 < 2 ? low : high)) scores[i] = -__int_as_float(0x7f800000);
  }
}

}  // namespace ragged::sm90
