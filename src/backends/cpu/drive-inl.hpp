// A worker: takes work items, cuts them into panels and chunks of keys, and walks them.

#if defined(RAGGED_CPU_DRIVE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_DRIVE_INL
#undef RAGGED_CPU_DRIVE_INL
#else
#define RAGGED_CPU_DRIVE_INL
#endif

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include <hwy/cache_control.h>

#include "abreast.hpp"
#include "ahead-inl.hpp"
#include "arithmetic.hpp"
#include "band.hpp"
#include "finish-inl.hpp"
#include "job.hpp"
#include "matrix.hpp"
#include "pack-inl.hpp"
#include "panel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Keys [begin, end) of an item that are walked together.
struct Chunk {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool packed = false;         // keys in tiles, and values
  bool copied_keys = false;    // as rows
  bool copied_values = false;  // as rows
  bool last = false;           // the item's last
};

template <class T>
class Worker {
 public:
  Worker(const Job& job, int worker) : job_(job), head_dim_(job.plan->problem.head_dim) {
    const RunArguments& args = *job.arguments;
    auto* base = reinterpret_cast<float*>(static_cast<char*>(args.workspace.data) +
                                          static_cast<std::size_t>(worker) * job.worker_bytes);
    queries_ = base + job.scratch.queries;
    scores_ = base + job.scratch.scores;
    outputs_ = base + job.scratch.outputs;
    tails_ = base + job.scratch.tails;
    references_ = base + job.scratch.references;
    sums_ = base + job.scratch.sums;
    finished_ = base + job.scratch.finished;
    keys_ = base + job.scratch.keys;
    values_ = base + job.scratch.values;
    query_scale_ = static_cast<float>(job.plan->problem.sm_scale * std::numbers::log2e);
    matrix_ = {head_dim_, query_scale_, job.matrix_rows, base};
  }

  // `next`: the item that this worker will probably take after this one, or null. `share`: what to
  // fetch instead of it, or null.
  void Run(const Item<T>& item, const Item<T>* next, const BandShare* share) {
    if (item.rows == 0) return;
    banded_ = share != nullptr;
    if constexpr (std::is_same_v<T, Bf16>) {
      if (job_.matrix_rows > 0 && item.variant == Variant::matrix) {
        matrix::run_item(item, next, share, matrix_, background_.prefetcher);
        return;
      }
    }
    // Few rows do not pay for tiles of keys; 16-bit elements are then converted as rows.
    const bool few = item.rows <= kInPlaceRows;
    const bool packs = std::is_same_v<T, float> ? item.variant == Variant::packed : !few;
    const std::int64_t end = item.end();
    const int block = block_keys(item.kv_len);
    const std::int64_t step = std::max<std::int64_t>(ChunkLimit(item) / block, 1) * block;
    if (banded_) {
      background_.prefetcher.start_spans(share->spans, share->count,
                                         TicksOfItem(item.rows, end, packs));
    }
    slots_at_ = 0;
    Chunk chunk = FirstChunk(item, packs, block);
    do {
      chunk.end = std::min(chunk.begin + step, end);
      chunk.last = chunk.end == end;
      TakeKeys(item, chunk);
      ahead_ = {};
      if (!chunk.last) {
        ahead_ = {&item.keys, chunk.end, std::min(chunk.end + step, end)};
      } else if (next != nullptr && next->keys.key(0) != item.keys.key(0)) {
        ahead_ = {&next->keys, 0, std::min(next->end(), ChunkLimit(*next))};
      }
      WalkChunk(item, next, chunk, block, step >= end);
      chunk.begin = chunk.end;
    } while (chunk.begin < end);
  }

  // Several heads of one unit, of few rows each, block by block. `next`: the first of the
  // `next_heads` that this worker will probably take after them, or null.
  void RunAbreast(const Abreast<T>& heads, const Item<T>* next, int next_heads) {
    const Item<T>& first = heads.items[0];
    if (first.rows == 0) return;
    banded_ = true;
    const std::int64_t end = first.end();
    const int block = block_keys(first.kv_len);
    const std::int64_t ticks = heads.count * TicksOfItem(first.rows, block, false);
    Chunk chunk = FirstChunk(first, false, block);
    do {
      chunk.end = std::min(chunk.begin + block, end);
      chunk.last = chunk.end == end;
      BandShare share;
      if (!chunk.last) {
        share = keys_of_heads(first, heads.count, head_dim_, chunk.end,
                              std::min(chunk.end + block, end));
      } else if (next != nullptr) {
        share = keys_of_heads(*next, next_heads, head_dim_, 0,
                              std::min<std::int64_t>(next->end(), block_keys(next->kv_len)));
      }
      background_.prefetcher.start_spans(share.spans, share.count, ticks);
      for (int i = 0; i < heads.count; ++i) {
        slots_at_ = i * kAbreastRows;
        TakeKeys(heads.items[i], chunk);
        WalkChunk(heads.items[i], nullptr, chunk, block, false);
      }
      chunk.begin = chunk.end;
    } while (chunk.begin < end);
  }

  // After the last item: what was written past the caches is visible to every thread.
  void Close() {
    background_.drain();
    if (job_.stream) hwy::FlushStream();
  }

 private:
  Chunk FirstChunk(const Item<T>& item, bool packs, int block) const {
    Chunk chunk;
    chunk.packed = packs;
    // One pass over the values needs no copy.
    chunk.copied_keys = !packs && !std::is_same_v<T, float>;
    chunk.copied_values = chunk.copied_keys ||
                          (!packs && item.rows > kDimKernels[0].rows &&
                           rows_collide(item.keys.v[1].stride * std::ptrdiff_t{sizeof(T)}, block));
    return chunk;
  }

  // What the chunk reads from the scratch.
  void TakeKeys(const Item<T>& item, const Chunk& chunk) {
    if (chunk.packed && chunk.end > chunk.begin) {
      PackChunk(item.keys, chunk.begin, chunk.end, head_dim_, keys_, values_);
    }
    if (chunk.copied_keys) CopyKeys(item.keys, chunk.begin, chunk.end, head_dim_, keys_);
    if (chunk.copied_values) CopyValues(item.keys, chunk.begin, chunk.end, head_dim_, values_);
  }

  // Keys of one chunk. Few rows are through with a chunk before the next one could be fetched
  // unless chunks are short.
  [[nodiscard]] std::int64_t ChunkLimit(const Item<T>& item) const {
    const std::int64_t most = job_.scratch.chunk_keys;
    return item.rows <= kInPlaceRows ? std::min(kFewRowsChunk, most) : most;
  }

  // Vectors of one panel, at most, where `left` are left.
  static int MostVectors(std::int64_t left, bool packed) {
    return packed || left > 8 ? kPackedRowVectors : kMaxRowVectors;
  }
  [[nodiscard]] std::int64_t TicksOfItem(std::int64_t rows, std::int64_t keys, bool packed) const {
    const std::int64_t vectors = (rows + kLanes - 1) / kLanes;
    const std::int64_t most = MostVectors(vectors, packed);
    const std::int64_t panels = (vectors + most - 1) / most;
    return panels * ticks_of(static_cast<int>(rows / panels),
                             static_cast<int>((vectors + panels - 1) / panels), head_dim_, keys,
                             packed);
  }

  // `whole`: the chunk holds all keys of the item, and sums need not outlive a panel.
  void WalkChunk(const Item<T>& item, const Item<T>* next, const Chunk& chunk, int block,
                 bool whole) {
    std::int64_t left = (item.rows + kLanes - 1) / kLanes;  // vectors
    const int most = MostVectors(left, chunk.packed);
    for (std::int64_t row = 0; row < item.rows;) {
      const std::int64_t panels = (left + most - 1) / most;
      const int vectors = static_cast<int>((left + panels - 1) / panels);
      const int rows = static_cast<int>(std::min<std::int64_t>(item.rows - row, vectors * kLanes));
      OpenPanel(item, row, rows, vectors, chunk, whole);
      const std::int64_t panel_end = panel_.ends[panel_.rows - 1];
      const bool closes = panel_end <= chunk.end && (panel_end > chunk.begin || chunk.begin == 0);
      if (panel_end > chunk.begin || closes) {
        LookAhead(item, next, row + rows, chunk, std::min(panel_end, chunk.end) - chunk.begin,
                  panels);
        WalkPanel(item, row, chunk, block, closes);
      }
      row += rows;
      left -= vectors;
    }
  }

  void OpenPanel(const Item<T>& item, std::int64_t row, int rows, int vectors, const Chunk& chunk,
                 bool whole) {
    const std::int64_t slot = whole ? 0 : slots_at_ + row;
    const int lanes = vectors * kLanes;
    const int dims = main_dims(head_dim_);
    panel_.rows = rows;
    panel_.vectors = vectors;
    panel_.head_dim = head_dim_;
    panel_.queries = queries_;
    panel_.scores = scores_;
    panel_.references = references_ + slot;
    panel_.sums = sums_ + slot;
    panel_.tails = tails_ + slot * kTailDims;
    panel_.started = chunk.begin > 0;
    // Short items are bound by memory already: they write their rows at once, straight from the
    // tiles.
    hands_over_ = job_.stream && chunk.packed;
    panel_.stream = job_.stream && !chunk.packed;
    panel_.masks = item.mask.causal || item.mask.block_size > 0;
    const T* from[kMaxPanelRows];
    std::int64_t token = row / item.group;
    std::int64_t head = row % item.group;
    std::int64_t end = item.end_of(row);
    for (int i = 0; i < rows; ++i) {
      from[i] = item.q + token * item.q_token + head * item.q_head;
      to_[i] = item.out + token * item.out_token + head * item.out_head;
      panel_.ends[i] = end;
      panel_.outputs[i] = outputs_ + (slot + i) * dims;
      if constexpr (std::is_same_v<T, float>) {
        panel_.finished[i] = hands_over_ ? finished_ + i * dims : to_[i];
      }
      if (++head == item.group) {
        head = 0;
        ++token;
        if (panel_.masks && i + 1 < rows) end = item.end_of(row + i + 1);
      }
    }
    for (int i = rows; i < lanes; ++i) {
      from[i] = from[rows - 1];
      panel_.ends[i] = panel_.ends[rows - 1];
    }
    const FloatTag d;
    const int row_bytes = head_dim_ * static_cast<int>(sizeof(T));
    for (int r = 0; r < lanes; r += kLanes) {
      // The rows of the next vector come from the second-level cache meanwhile.
      for (int i = r + kLanes; i < std::min(r + 2 * kLanes, rows); ++i) {
        const char* at = static_cast<const char*>(static_cast<const void*>(from[i]));
        for (int byte = 0; byte < row_bytes; byte += 64) __builtin_prefetch(at + byte, 0, 3);
      }
      TransposeRows<true>(d, from + r, head_dim_, query_scale_, queries_ + r, lanes);
    }
    if (!panel_.started) {
      std::fill_n(panel_.references, lanes, -std::numeric_limits<float>::infinity());
      std::fill_n(panel_.sums, lanes, 0.0f);
    }
  }

  void LookAhead(const Item<T>& item, const Item<T>* next, std::int64_t next_row,
                 const Chunk& chunk, std::int64_t keys, std::int64_t panels_left) {
    if (banded_) return;  // all of the item's keys and rows have been fetched
    Prefetcher& prefetcher = background_.prefetcher;
    prefetcher.clear();
    if (next_row < item.rows) {
      rows_ahead(prefetcher, item, next_row, std::min(item.rows - next_row, kRowsAhead),
                 !job_.stream);
    } else if (next != nullptr && chunk.last) {
      rows_ahead(prefetcher, *next, 0, std::min(next->rows, kRowsAhead), !job_.stream);
    }
    if (ahead_.sources != nullptr) ahead_.hand_out(prefetcher, panels_left);
    prefetcher.start(ticks_of(panel_.rows, panel_.vectors, head_dim_, keys, chunk.packed),
                     head_dim_ * static_cast<std::int64_t>(sizeof(T)));
  }

  void WalkPanel(const Item<T>& item, std::int64_t row, const Chunk& chunk, int block,
                 bool closes) {
    const std::int64_t panel_end = panel_.ends[panel_.rows - 1];
    const std::int64_t end = std::min(panel_end, chunk.end);
    bool written = false;
    for (std::int64_t begin = chunk.begin; begin < end; begin += block) {
      const int count = static_cast<int>(std::min<std::int64_t>(block, end - begin));
      BlockPiece pieces[2];
      const int num_pieces = Pieces(item, chunk, begin, count, pieces);
      written = WalkBlock(panel_, begin, count, pieces, num_pieces,
                          closes && begin + count == panel_end, &background_);
    }
    if (!closes) return;
    if (!panel_.started) ZeroOutputs(panel_);
    if constexpr (std::is_same_v<T, float>) {
      if (hands_over_) {
        if (!written) {
          background_.drain();
          WriteRows(panel_, panel_.finished, true);
        }
        background_.hand_over(finished_, to_, panel_.rows, head_dim_);
        written = true;
      }
    }
    if (!written || main_dims(head_dim_) != head_dim_) WriteRows(panel_, to_, !written);
    if (item.lse == nullptr) return;
    for (int i = 0; i < panel_.rows; ++i) *item.lse_at(row + i) = row_lse(panel_, i);
  }

  int Pieces(const Item<T>& item, const Chunk& chunk, std::int64_t begin, int count,
             BlockPiece* pieces) const {
    if (chunk.packed || chunk.copied_keys) {
      const std::ptrdiff_t stride = packed_value_stride(head_dim_);
      const std::ptrdiff_t at = begin - chunk.begin;
      pieces[0] = {
          keys_ + at * head_dim_, head_dim_, values_ + at * stride, stride, count, chunk.packed};
      return 1;
    }
    int num = 0;
    if constexpr (std::is_same_v<T, float>) {
      for (std::int64_t key = begin; key < begin + count;) {
        const KeyPiece piece = item.keys.piece(key, begin + count);
        const RowRange<float>& k = item.keys.k[piece.source];
        const RowRange<float>& v = item.keys.v[piece.source];
        BlockPiece& out = pieces[num++];
        out.keys = k.row(piece.begin);
        out.key_stride = k.stride;
        out.values = v.row(piece.begin);
        out.value_stride = v.stride;
        out.count = static_cast<int>(piece.count);
        if (chunk.copied_values) {
          out.value_stride = packed_value_stride(head_dim_);
          out.values = values_ + (key - chunk.begin) * out.value_stride;
        }
        key += piece.count;
      }
    }
    return num;
  }

  static constexpr std::int64_t kRowsAhead = kMaxPanelRows;

  const Job& job_;
  int head_dim_;
  float query_scale_;
  float* queries_;
  float* scores_;
  float* outputs_;
  float* tails_;
  float* references_;
  float* sums_;
  float* finished_;
  float* keys_;
  float* values_;
  Background background_;
  matrix::Context matrix_;
  KeysAhead<T> ahead_;
  Panel panel_;
  T* to_[kMaxPanelRows] = {};
  std::int64_t slots_at_ = 0;  // of the rows that outlive a chunk: where the item's begin
  bool banded_ = false;        // what is fetched ahead is not the panel's to choose
  bool hands_over_ = false;    // finished rows go through finished_
};

template <class T>
void RunItems(Job& job, int worker) {
  const WorkersArithmetic arithmetic;
  const matrix::Tiles tiles(job.matrix_rows > 0);
  Worker<T> self(job, worker);
  const std::int64_t items = job.plan->num_items();
  const auto take = [&job] { return job.next.fetch_add(job.claim, std::memory_order_relaxed); };
  const bool ahead = job.claim > 1;
  for (std::int64_t first = take(); first < items;) {
    const std::int64_t end = std::min(first + job.claim, items);
    // Small items are claimed one claim ahead: what is fetched ahead is then the worker's own.
    const std::int64_t after = ahead ? take() : end;
    Item<T> item = item_of<T>(job, first);
    for (std::int64_t id = first; id < end;) {
      const int heads = abreast_from(job, id, end);
      // Past its own items a worker looks at the one after: whoever takes it finds it in the shared
      // cache.
      const std::int64_t next_id = id + heads < end ? id + heads : after;
      const bool has_next = next_id < items;
      Item<T> next;
      if (has_next) next = item_of<T>(job, next_id);
      if (heads > 1) {
        const std::int64_t next_end = next_id == after ? std::min(after + job.claim, items) : end;
        const int next_heads = has_next ? abreast_from(job, next_id, next_end) : 0;
        self.RunAbreast(Abreast<T>(job, id, heads), has_next ? &next : nullptr, next_heads);
      } else {
        BandShare share;
        const bool banded = share_of_item<T>(job, id, end, after, share);
        self.Run(item, has_next ? &next : nullptr, banded ? &share : nullptr);
      }
      item = next;
      id += heads;
    }
    first = ahead ? after : take();
  }
  self.Close();
}

// What dispatch calls: all items that this worker can get.
inline void RunWorker(Job& job, int worker) {
  switch (job.plan->problem.dtype) {
    case DType::bf16:
      return RunItems<Bf16>(job, worker);
    case DType::fp16:
      return RunItems<Fp16>(job, worker);
    case DType::fp32:
      return RunItems<float>(job, worker);
  }
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
