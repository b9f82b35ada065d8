// One panel: up to four vectors of query rows that walk the keys together, block by block.

#if defined(RAGGED_CPU_PANEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_PANEL_INL
#undef RAGGED_CPU_PANEL_INL
#else
#define RAGGED_CPU_PANEL_INL
#endif

#include <algorithm>
#include <cstdint>

#include "shapes.hpp"
#include "tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Keys that lie side by side in memory: a whole block of packed keys, or a run of keys in place.
struct BlockPiece {
  const float* keys = nullptr;
  std::ptrdiff_t key_stride = 0;  // in place only
  const float* values = nullptr;
  std::ptrdiff_t value_stride = 0;
  int count = 0;
  bool packed = false;
};

// A panel's rows and their running state. Pointers into the worker's scratch.
struct Panel {
  int rows = 0;
  int vectors = 0;  // of rows; the lanes past `rows` repeat the last row
  int head_dim = 0;
  float* queries = nullptr;     // [head_dim][vectors * kLanes], scaled by sm_scale * log2(e)
  float* scores = nullptr;      // [kMaxBlock][vectors * kLanes]
  float* references = nullptr;  // [vectors * kLanes]
  float* sums = nullptr;        // [vectors * kLanes]
  float* tails = nullptr;  // [8][vectors * kLanes]; 16 lanes and an odd multiple of 8 dims only
  float* outputs[kMaxPanelRows] = {};     // [head_dim] each: sums so far
  float* finished[kMaxPanelRows] = {};    // where tiles write finished rows; fp32 outputs only
  std::int64_t ends[kMaxPanelRows] = {};  // keys that each lane's row sees; never falls
  bool stream = false;                    // write them past the caches
  bool started = false;                   // some block has been walked
  bool masks = false;                     // some row may see less than all keys
};

// Dims that fill whole vectors; the rest is the tail.
constexpr int main_dims(int head_dim) { return head_dim / kLanes * kLanes; }

HWY_INLINE void ScorePiece(const Panel& panel, const BlockPiece& piece, int count, float* scores,
                           float* maxima, Background* background) {
  const RowKernels& kernels = kRowKernels[static_cast<std::size_t>(panel.vectors - 1)];
  const int lanes = panel.vectors * kLanes;
  if (piece.packed) {
    for (int j = 0; j < count; j += kKeyTile) {
      const int keys = std::min(kKeyTile, count - j);
      kernels.packed[keys - 1](panel.queries, piece.keys + std::ptrdiff_t{j} * panel.head_dim, 0,
                               panel.head_dim, scores + j * lanes, maxima, background);
    }
    return;
  }
  // Tiles of even size: a short last one would run at a fraction of the speed.
  int tiles = (count + kernels.in_place_keys - 1) / kernels.in_place_keys;
  for (int j = 0; j < count; --tiles) {
    const int keys = (count - j + tiles - 1) / tiles;
    kernels.in_place[keys - 1](panel.queries, piece.keys + j * piece.key_stride, piece.key_stride,
                               panel.head_dim, scores + j * lanes, maxima, background);
    j += keys;
  }
}

// Output tiles over rows [row, row + rows) of keys that all of them see.
struct OutputStep {
  const float* weights = nullptr;  // of the piece: [count][vectors * kLanes]
  const BlockPiece* piece = nullptr;
  bool first = false;            // sums start at zero
  const float* scale = nullptr;  // [vectors * kLanes]: finish the rows, times this; or null
};

HWY_INLINE void OutputMain(const Panel& panel, const OutputStep& step, Background* background) {
  const BlockPiece& piece = *step.piece;
  const std::ptrdiff_t lanes = panel.vectors * kLanes;
  int left = panel.head_dim / kLanes;
  int dim = 0;
  while (left > 0) {
    const int width = next_dim_width(left);
    const DimKernels& kernels = kDimKernels[static_cast<std::size_t>(width - 1)];
    int tiles = (panel.rows + kernels.rows - 1) / kernels.rows;
    for (int row = 0; row < panel.rows; --tiles) {
      const int rows = (panel.rows - row + tiles - 1) / tiles;
      const OutputRows target = {step.first ? nullptr : panel.outputs + row,
                                 step.scale != nullptr ? panel.finished + row : panel.outputs + row,
                                 step.scale != nullptr ? step.scale + row : nullptr,
                                 step.scale != nullptr && panel.stream};
      kernels.tile[rows - 1](step.weights + row, lanes, piece.values + dim, piece.value_stride,
                             piece.count, target, dim, background);
      row += rows;
    }
    dim += width * kLanes;
    left -= width;
  }
}

// The same where rows see different numbers of keys. A tile walks the keys that its first row sees,
// drops the rows that have reached their end, and goes on: no weight of 0 ever meets a value that
// its row does not see. `ends`: keys of the piece that each row sees.
HWY_INLINE void OutputStairs(const Panel& panel, const OutputStep& step, const std::int32_t* ends,
                             Background* background) {
  const BlockPiece& piece = *step.piece;
  const std::ptrdiff_t lanes = panel.vectors * kLanes;
  int left = panel.head_dim / kLanes;
  int dim = 0;
  while (left > 0) {
    const int width = next_dim_width(left);
    const DimKernels& kernels = kDimKernels[static_cast<std::size_t>(width - 1)];
    int tiles = (panel.rows + kernels.rows - 1) / kernels.rows;
    for (int row = 0; row < panel.rows; --tiles) {
      const int after = row + (panel.rows - row + tiles - 1) / tiles;
      int key = 0;
      for (int from = row; from < after;) {
        const int end = ends[from];
        if (end > key) {
          const OutputRows target = {panel.outputs + from, panel.outputs + from, nullptr, false};
          kernels.tile[after - from - 1](step.weights + key * lanes + from, lanes,
                                         piece.values + key * piece.value_stride + dim,
                                         piece.value_stride, end - key, target, dim, background);
          key = end;
        }
        while (from < after && ends[from] <= key) ++from;
      }
      row = after;
    }
    dim += width * kLanes;
    left -= width;
  }
}

// Sums of the rows times their factors, where a reference moved.
HWY_INLINE void RescaleOutputs(const Panel& panel, const float* factors) {
  const FloatTag d;
  const int dims = main_dims(panel.head_dim);
  for (int i = 0; i < panel.rows; ++i) {
    if (factors[i] == 1.0f) continue;
    const FloatVec factor = hn::Set(d, factors[i]);
    float* out = panel.outputs[i];
    for (int x = 0; x < dims; x += kLanes) {
      hn::Store(hn::Mul(hn::Load(d, out + x), factor), d, out + x);
    }
  }
  if (dims == panel.head_dim) return;
  const int lanes = panel.vectors * kLanes;
  for (int c = 0; c < kTailDims; ++c) {
    for (int r = 0; r < lanes; r += kLanes) {
      float* at = panel.tails + c * lanes + r;
      hn::Store(hn::Mul(hn::Load(d, at), hn::Load(d, factors + r)), d, at);
    }
  }
}

HWY_INLINE void ZeroOutputs(const Panel& panel) {
  for (int i = 0; i < panel.rows; ++i) {
    std::fill_n(panel.outputs[i], main_dims(panel.head_dim), 0.0f);
  }
  if (main_dims(panel.head_dim) != panel.head_dim) {
    std::fill_n(panel.tails, kTailDims * panel.vectors * kLanes, 0.0f);
  }
}

// 1 / sums, or 0 for a row without keys.
HWY_INLINE void InverseSums(const Panel& panel, float* inverse) {
  const FloatTag d;
  for (int r = 0; r < panel.vectors * kLanes; r += kLanes) {
    const FloatVec sum = hn::Load(d, panel.sums + r);
    const FloatVec one_over = hn::Div(hn::Set(d, 1.0f), sum);
    hn::Store(hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), hn::Zero(d), one_over), d, inverse + r);
  }
}

// Walks keys [begin, begin + count) of the segment, given as one or two pieces in key order.
//   finish  every row ends here: where all rows see all keys and the outputs are fp32, the tiles
//           write the finished rows, and the call returns true
inline bool WalkBlock(Panel& panel, std::int64_t begin, int count, const BlockPiece* pieces,
                      int num_pieces, bool finish, Background* background) {
  const RowKernels& kernels = kRowKernels[static_cast<std::size_t>(panel.vectors - 1)];
  const int lanes = panel.vectors * kLanes;
  HWY_ALIGN float maxima[kMaxPanelRows];
  HWY_ALIGN float factors[kMaxPanelRows];
  HWY_ALIGN std::int32_t ends[kMaxPanelRows];
  std::fill_n(maxima, lanes, -std::numeric_limits<float>::infinity());

  float* scores = panel.scores;
  for (int p = 0; p < num_pieces; ++p) {
    ScorePiece(panel, pieces[p], pieces[p].count, scores, maxima, background);
    scores += pieces[p].count * lanes;
  }
  const bool masked = panel.masks && panel.ends[0] < begin + count;
  if (masked) {
    for (int r = 0; r < lanes; ++r) {
      const std::int64_t end = panel.ends[r] - begin;
      ends[r] = static_cast<std::int32_t>(std::clamp<std::int64_t>(end, 0, count));
    }
    kernels.mask(panel.scores, ends[0], count, ends, maxima);
    if (!panel.started) {
      ZeroOutputs(panel);
      panel.started = true;
    }
  }
  if (kernels.move(maxima, panel.references, panel.sums, factors) && panel.started) {
    RescaleOutputs(panel, factors);
  }
  kernels.weigh(panel.scores, count, panel.references, panel.sums);

  finish = finish && !masked && panel.finished[0] != nullptr;
  HWY_ALIGN float inverse[kMaxPanelRows];
  if (finish) {
    background->drain();  // its rows are about to be written over
    InverseSums(panel, inverse);
  }
  const int dims = main_dims(panel.head_dim);
  const float* weights = panel.scores;
  int done = 0;
  for (int p = 0; p < num_pieces; ++p) {
    const BlockPiece& piece = pieces[p];
    OutputStep step;
    step.weights = weights;
    step.piece = &piece;
    step.first = !panel.started;
    if (finish && p == num_pieces - 1) {
      step.scale = inverse;
    }
    if (masked) {
      HWY_ALIGN std::int32_t piece_ends[kMaxPanelRows];
      for (int r = 0; r < lanes; ++r) piece_ends[r] = std::clamp(ends[r] - done, 0, piece.count);
      OutputStairs(panel, step, piece_ends, background);
      if (dims != panel.head_dim) {
        const int seen = piece_ends[0];  // by every row
        kernels.tail(weights, piece.values + dims, piece.value_stride, seen, false, panel.tails,
                     background);
        kernels.tail_masked(weights, piece.values + dims, piece.value_stride, seen, piece.count,
                            piece_ends, panel.tails);
      }
    } else {
      OutputMain(panel, step, background);
      if (dims != panel.head_dim) {
        kernels.tail(weights, piece.values + dims, piece.value_stride, piece.count, step.first,
                     panel.tails, background);
      }
    }
    panel.started = true;
    weights += piece.count * lanes;
    done += piece.count;
  }
  return finish;
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
