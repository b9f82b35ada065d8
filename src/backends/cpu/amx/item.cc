#include "backends/cpu/matrix.hpp"

#if defined(__x86_64__)

#include <algorithm>
#include <cmath>
#include <numbers>

#include "backends/cpu/amx/pack.hpp"
#include "backends/cpu/amx/scratch.hpp"
#include "backends/cpu/amx/softmax.hpp"

RAGGED_AMX_BEGIN
namespace ragged::cpu::amx {
namespace {

using matrix::Context;

// A row's maximum is followed in steps of this power of two where it is followed at all.
constexpr float kLazyStep = 8.0F;
// Panels are cut into this many rounds, so that tiles and vectors work side by side.
constexpr int kRounds = kPanelRows / 4;

// The compiler does not know what tile loads read: it must have stored it before.
inline void finish_stores() { asm volatile("" ::: "memory"); }

// One item: scores, weights and outputs of its rows, panel by panel and chunk by chunk.
class ItemRun {
 public:
  ItemRun(const Item<Bf16>& item, const Item<Bf16>* next, const BandShare* share,
          const Context& context, Prefetcher& prefetcher)
      : item_(item),
        next_(next),
        share_(share),
        context_(context),
        prefetcher_(prefetcher),
        scratch_(context.scratch, context.head_dim, context.max_rows),
        rows_(static_cast<int>(item.rows)),
        panels_((rows_ + kPanelRows - 1) / kPanelRows),
        steps_((context.head_dim + 31) / 32),
        tiles_((context.head_dim + 15) / 16),
        chunk_(matrix::chunk_keys(context.head_dim)),
        scale_(std::abs(context.scale)) {}

  void run() {
    if (share_ != nullptr) {
      prefetcher_.start_spans(share_->spans, share_->count, ticks());
    } else {
      prefetcher_.clear();
    }
    open();
    // The largest score of a row's first chunk serves as its reference for all: weights and sums
    // have the exponents of fp32, so only a row whose later scores run far away has to be done
    // again, with a reference that follows.
    walk<false>();
    if (write(false)) return;
    walk<true>();
    write(true);
  }

 private:
  // Queries to the scratch, zeros where the head or the item ends, and where each row's keys end.
  // They carry the sign of the scale: the largest score is then the largest scaled one.
  void open() {
    const int padded = panels_ * kPanelRows;
    const __m512i sign = _mm512_set1_epi16(context_.scale < 0.0F ? INT16_MIN : 0);
    std::int64_t token = 0;
    int head = 0;
    for (int row = 0; row < padded; ++row) {
      Bf16* to = scratch_.queries + row * steps_ * 32;
      prefetcher_.tick();
      const Bf16* from = item_.q + token * item_.q_token + head * item_.q_head;
      for (int step = 0; step < steps_; ++step) {
        const __mmask32 dims = row < rows_ ? first_lanes(context_.head_dim - step * 32) : 0U;
        const __m512i query = _mm512_maskz_loadu_epi16(dims, from + step * 32);
        _mm512_store_si512(to + step * 32, _mm512_xor_si512(query, sign));
      }
      scratch_.ends[row] = row < rows_ ? item_.end_of(row) : scratch_.ends[rows_ - 1];
      scratch_.done[row] = false;
      if (row + 1 < rows_ && ++head == item_.group) {
        head = 0;
        ++token;
      }
    }
  }

  template <bool kFollow>
  void walk() {
    const int padded = panels_ * kPanelRows;
    for (int row = 0; row < padded; ++row) {
      scratch_.references[row] = kNoReference;
      scratch_.sums[row] = _mm512_setzero_ps();
    }
    const std::int64_t end = scratch_.ends[rows_ - 1];
    for (std::int64_t begin = 0; begin < end; begin += chunk_) {
      count_ = static_cast<int>(std::min<std::int64_t>(chunk_, end - begin));
      first_ = begin == 0;
      pack_keys(item_.keys, begin, count_, context_.head_dim, scratch_.keys, prefetcher_);
      finite_ =
          pack_values(item_.keys, begin, count_, context_.head_dim, scratch_.values, prefetcher_);
      for (int row = 0; row < padded; ++row) {
        scratch_.chunk_ends[row] = static_cast<std::int32_t>(
            std::clamp<std::int64_t>(scratch_.ends[row] - begin, 0, count_));
      }
      int from = 0;
      while (panel_keys(from) == 0) ++from;
      look_ahead(begin + chunk_, end, panels_ - from);
      // Panel i's scores, panel i - 1's weights and panel i - 2's outputs run side by side: the
      // first and the last keep the tiles busy, the second the vectors.
      for (int i = from; i < panels_ + 2; ++i) {
        step<kFollow>(i < panels_ ? i : -1, i - 1 >= from && i - 1 < panels_ ? i - 1 : -1,
                      i - 2 >= from ? i - 2 : -1);
      }
    }
  }

  // Keys of the chunk that some row of the panel sees, in whole tiles.
  [[nodiscard]] int panel_keys(int panel) const {
    return (scratch_.chunk_ends[panel * kPanelRows + kPanelRows - 1] + 31) / 32 * 32;
  }

  template <bool kFollow>
  void step(int score_panel, int weigh_panel, int output_panel) {
    const int score_blocks = score_panel >= 0 ? panel_keys(score_panel) / 32 : 0;
    int output_blocks = output_panel >= 0 ? (tiles_ + 1) / 2 : 0;
    if (output_panel >= 0 && !finite_ && rows_end_early(output_panel)) {
      output_by_end(output_panel);
      output_blocks = 0;
    }
    int scored = 0;
    int written = 0;
    for (int round = 0; round < kRounds; ++round) {
      prefetcher_.tick();
      while (scored * kRounds < (round + 1) * score_blocks) score_block(score_panel, scored++);
      if (weigh_panel >= 0) weigh_rows<kFollow>(weigh_panel, round * 4);
      while (written * kRounds < (round + 1) * output_blocks) {
        output_block(output_panel, written++, scratch_.values);
      }
    }
  }

  // Scores of a panel against 32 keys.
  void score_block(int panel, int block) {
    const int pitch = steps_ * 32;
    const Bf16* queries = scratch_.queries + panel * kPanelRows * pitch;
    const Bf16* keys = scratch_.keys + 2 * block * steps_ * kTileElements;
    float* to = scratch_.scores[panel % 2] + block * 32;
    finish_stores();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int step = 0; step < steps_; ++step) {
      _tile_loadd(4, queries + step * 32, pitch * 2);
      _tile_loadd(6, keys + step * kTileElements, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, keys + (steps_ + step) * kTileElements, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, queries + 16 * pitch + step * 32, pitch * 2);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, to, chunk_ * 4);
    _tile_stored(1, to + 16, chunk_ * 4);
    _tile_stored(2, to + 16 * chunk_, chunk_ * 4);
    _tile_stored(3, to + 16 * chunk_ + 16, chunk_ * 4);
  }

  template <bool kFollow>
  void weigh_rows(int panel, int row) {
    const int at = panel * kPanelRows + row;
    FourRows rows;
    rows.scores = scratch_.scores[panel % 2] + row * chunk_;
    rows.weights = scratch_.weights[panel % 2] + row * chunk_;
    rows.stride = chunk_;
    rows.ends = scratch_.chunk_ends + at;
    rows.padded_keys = panel_keys(panel);
    rows.scale = scale_;
    rows.references = scratch_.references + at;
    rows.sums = scratch_.sums + at;
    if constexpr (kFollow) {
      follow_maxima(rows, at);
      weigh<false>(rows);
    } else {
      if (first_) _mm_storeu_ps(rows.references, scaled_maxima(rows));
      weigh<true>(rows);
    }
  }

  // Moves references that the maxima of this chunk left behind, and what was summed under them.
  void follow_maxima(const FourRows& rows, int at) {
    alignas(16) float top[4];
    _mm_store_ps(top, scaled_maxima(rows));
    for (int i = 0; i < 4; ++i) {
      const float old = rows.references[i];
      if (!(top[i] > old + kLazyStep)) continue;
      rows.references[i] = top[i];
      const __m512 factor = _mm512_set1_ps(old == kNoReference ? 0.0F : std::exp2(old - top[i]));
      rows.sums[i] = _mm512_mul_ps(rows.sums[i], factor);
      if (first_) continue;
      float* out = scratch_.outputs + (at + i) * tiles_ * 16;
      for (int tile = 0; tile < tiles_; ++tile) {
        const __m512 scaled = _mm512_mul_ps(_mm512_load_ps(out + tile * 16), factor);
        _mm512_store_ps(out + tile * 16, scaled);
      }
    }
  }

  // Outputs of a panel in 32 dims, added to what earlier chunks left.
  void output_block(int panel, int block, const Bf16* values) {
    const int pitch = tiles_ * 16;
    float* to = scratch_.outputs + panel * kPanelRows * pitch + block * 32;
    const Bf16* weights = scratch_.weights[panel % 2];
    const Bf16* from = values + 2 * block * kTileElements;
    const int key_steps = panel_keys(panel) / 32;
    const bool two = 2 * block + 1 < tiles_;
    finish_stores();
    if (first_) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    } else {
      _tile_loadd(0, to, pitch * 4);
      _tile_loadd(2, to + 16 * pitch, pitch * 4);
      if (two) {
        _tile_loadd(1, to + 16, pitch * 4);
        _tile_loadd(3, to + 16 * pitch + 16, pitch * 4);
      }
    }
    for (int step = 0; step < key_steps; ++step, from += tiles_ * kTileElements) {
      _tile_loadd(4, weights + step * 32, chunk_ * 2);
      _tile_loadd(6, from, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, weights + 16 * chunk_ + step * 32, chunk_ * 2);
      _tile_dpbf16ps(2, 5, 6);
      if (two) {
        _tile_loadd(7, from + kTileElements, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
    _tile_stored(0, to, pitch * 4);
    _tile_stored(2, to + 16 * pitch, pitch * 4);
    if (two) {
      _tile_stored(1, to + 16, pitch * 4);
      _tile_stored(3, to + 16 * pitch + 16, pitch * 4);
    }
  }

  // True if some row of the panel ends before the last key that the panel's tiles hold.
  [[nodiscard]] bool rows_end_early(int panel) const {
    return scratch_.chunk_ends[panel * kPanelRows] < panel_keys(panel);
  }

  // The same outputs where a value is not finite and not every row sees it: once for each end that
  // occurs, with the values behind it cleared. A weight of 0 times a finite value adds nothing, so
  // rows have the bits that they would have without the value.
  void output_by_end(int panel) {
    const int pitch = tiles_ * 16;
    float* outputs = scratch_.outputs + panel * kPanelRows * pitch;
    const std::int32_t* ends = scratch_.chunk_ends + panel * kPanelRows;
    std::copy_n(outputs, kPanelRows * pitch, scratch_.before);
    for (int row = 0; row < kPanelRows;) {
      int next = row + 1;
      while (next < kPanelRows && ends[next] == ends[row]) ++next;
      copy_visible_values(scratch_.values, count_, ends[row], context_.head_dim,
                          scratch_.visible_values);
      std::copy_n(scratch_.before, kPanelRows * pitch, outputs);
      for (int block = 0; block < (tiles_ + 1) / 2; ++block) {
        output_block(panel, block, scratch_.visible_values);
      }
      finish_stores();
      std::copy(outputs + row * pitch, outputs + next * pitch, scratch_.after + row * pitch);
      row = next;
    }
    std::copy_n(scratch_.after, kPanelRows * pitch, outputs);
  }

  // Writes the rows that are right, and all that are left if `last`. True if none is left.
  bool write(bool last) {
    bool all = true;
    for (int row = 0; row < rows_; ++row) {
      if (scratch_.done[row]) continue;
      const bool empty = scratch_.ends[row] == 0;
      // 0 also where every score is -inf: the row is then as one that sees no key.
      const float sum = empty ? 0.0F : _mm512_reduce_add_ps(scratch_.sums[row]);
      const bool held = empty || (sum > 0x1p-60F && sum < 0x1p100F);
      if (!last && !held) {
        all = false;
        continue;
      }
      const __m512 inverse = _mm512_set1_ps(sum == 0.0F ? 0.0F : 1.0F / sum);
      const float* from = scratch_.outputs + row * tiles_ * 16;
      Bf16* to = item_.out_row(row);
      __mmask16 special = 0;
      for (int tile = 0; tile < tiles_; ++tile) {
        const __mmask16 dims = first_lanes16(context_.head_dim - tile * 16);
        const __m512 value =
            empty ? _mm512_setzero_ps() : _mm512_mul_ps(_mm512_load_ps(from + tile * 16), inverse);
        special |= _mm512_mask_fpclass_ps_mask(dims, value, 0x99);  // NaN, +-Inf
        const __m256bh rounded = _mm512_cvtneps_pbh(value);
        _mm256_mask_storeu_epi16(to + tile * 16, dims, reinterpret_cast<const __m256i&>(rounded));
      }
      // Weights above 1 may have taken large values past fp32's range.
      if (!last && special != 0) {
        all = false;
        continue;
      }
      scratch_.done[row] = true;
      if (item_.lse != nullptr) *item_.lse_at(row) = empty ? kNoReference : lse(row, sum);
    }
    return all;
  }

  // In double: the reference may be large.
  [[nodiscard]] float lse(int row, float sum) const {
    if (sum == 0.0F) return kNoReference;
    return static_cast<float>(static_cast<double>(scratch_.references[row]) * std::numbers::ln2 +
                              std::log(static_cast<double>(sum)));
  }

  // What the next chunk, or the next item, will read.
  void look_ahead(std::int64_t begin, std::int64_t end, int panels) {
    if (share_ != nullptr) return;
    prefetcher_.clear();
    if (begin < end) {
      keys_ahead(item_.keys, begin, std::min(begin + chunk_, end));
    } else if (next_ != nullptr) {
      const Item<Bf16>& next = *next_;
      keys_ahead(next.keys, 0, std::min<std::int64_t>(next.kv_len, chunk_));
      const std::int64_t tokens = next.rows / next.group;
      for (int head = 0; head < std::min(next.group, 4); ++head) {
        prefetcher_.add(next.q + head * next.q_head, next.q_token * 2, tokens);
        prefetcher_.add(next.out + head * next.out_head, next.out_token * 2, tokens);
      }
    }
    prefetcher_.start((panels + 2) * kRounds, context_.head_dim * 2);
  }

  // How often an item ticks: beside each query, each tile of keys, each pair of values, each round.
  [[nodiscard]] std::int64_t ticks() const {
    const std::int64_t key_tiles = (item_.kv_len + 31) / 32;
    return panels_ * kPanelRows + key_tiles * (2 * steps_ + 16) + (panels_ + 2) * kRounds;
  }

  void keys_ahead(const KeySources<Bf16>& keys, std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const KeyPiece piece = keys.piece(begin, end);
      const RowRange<Bf16>& k = keys.k[piece.source];
      const RowRange<Bf16>& v = keys.v[piece.source];
      prefetcher_.add(k.row(piece.begin), k.stride * 2, piece.count);
      prefetcher_.add(v.row(piece.begin), v.stride * 2, piece.count);
      begin += piece.count;
    }
  }

  const Item<Bf16>& item_;
  const Item<Bf16>* next_;
  const BandShare* share_;
  const Context& context_;
  Prefetcher& prefetcher_;
  const Scratch scratch_;
  const int rows_;
  const int panels_;
  const int steps_;  // of 32 dims, in a score
  const int tiles_;  // of 16 dims, in an output
  const int chunk_;  // keys of one step
  const float scale_;
  int count_ = 0;  // keys of the current chunk
  bool first_ = false;
  bool finite_ = true;  // every value of the current chunk is
};

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

}  // namespace
}  // namespace ragged::cpu::amx

namespace ragged::cpu::matrix {

Tiles::Tiles(bool used) noexcept : used_(used) {
  if (!used_) return;
  const amx::TileConfig config;
  amx::finish_stores();
  asm volatile("ldtilecfg %0" ::"m"(config));
}

Tiles::~Tiles() {
  if (used_) asm volatile("tilerelease");
}

void run_item(const Item<Bf16>& item, const Item<Bf16>* next, const BandShare* share,
              const Context& context, Prefetcher& prefetcher) noexcept {
  amx::ItemRun(item, next, share, context, prefetcher).run();
}

}  // namespace ragged::cpu::matrix
RAGGED_AMX_END

namespace ragged::cpu::matrix {

std::size_t scratch_bytes(int head_dim, std::int64_t rows) noexcept {
  return amx::Scratch(nullptr, head_dim, rows).bytes;
}

bool available() noexcept {
  static const bool is = DeviceFacts::host(1).simd == "amx";
  return is;
}

}  // namespace ragged::cpu::matrix

#else

namespace ragged::cpu::matrix {

bool available() noexcept { return false; }
std::size_t scratch_bytes(int /*head_dim*/, std::int64_t /*rows*/) noexcept { return 0; }
Tiles::Tiles(bool /*used*/) noexcept : used_(false) {}
Tiles::~Tiles() = default;
void run_item(const Item<Bf16>& /*item*/, const Item<Bf16>* /*next*/, const BandShare* /*share*/,
              const Context& /*context*/, Prefetcher& /*prefetcher*/) noexcept {}

}  // namespace ragged::cpu::matrix

#endif
