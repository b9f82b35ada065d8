// What the inner loops of one panel fetch ahead: the rows of the next panel, and a share of the
// keys that the worker will need next.

#if defined(RAGGED_CPU_AHEAD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAGGED_CPU_AHEAD_INL
#undef RAGGED_CPU_AHEAD_INL
#else
#define RAGGED_CPU_AHEAD_INL
#endif

#include <algorithm>
#include <cstdint>

#include "job.hpp"
#include "panel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ragged::cpu::HWY_NAMESPACE {

// Inner steps of eight in a panel that walks `keys` keys: how many times its kernels will tick.
inline std::int64_t ticks_of(int rows, int vectors, int head_dim, std::int64_t keys, bool packed) {
  const RowKernels& kernels = kRowKernels[static_cast<std::size_t>(vectors - 1)];
  const int tile = packed ? kKeyTile : kernels.in_place_keys;
  std::int64_t ticks = (keys + tile - 1) / tile * (head_dim / 8);
  for (int left = head_dim / kLanes; left > 0;) {
    const int width = next_dim_width(left);
    const int most = kDimKernels[static_cast<std::size_t>(width - 1)].rows;
    ticks += (rows + most - 1) / most * ((keys + 7) / 8);
    left -= width;
  }
  return ticks;
}

// Keys and values that will be read after the current ones, handed out in even shares.
template <class T>
struct KeysAhead {
  const KeySources<T>* sources = nullptr;
  std::int64_t next = 0;  // first key not yet handed out
  std::int64_t end = 0;

  // Adds the streams of one of `shares` shares that are left.
  void hand_out(Prefetcher& prefetcher, std::int64_t shares) {
    const std::int64_t until = next + (end - next + shares - 1) / std::max<std::int64_t>(shares, 1);
    while (next < until) {
      const KeyPiece piece = sources->piece(next, until);
      const RowRange<T>& k = sources->k[piece.source];
      const RowRange<T>& v = sources->v[piece.source];
      const auto bytes = static_cast<std::ptrdiff_t>(sizeof(T));
      prefetcher.add(k.row(piece.begin), k.stride * bytes, piece.count);
      prefetcher.add(v.row(piece.begin), v.stride * bytes, piece.count);
      next += piece.count;
    }
  }
};

// Query rows [row, row + rows) of an item, and the output rows where `outputs`.
template <class T>
void rows_ahead(Prefetcher& prefetcher, const Item<T>& item, std::int64_t row, std::int64_t rows,
                bool outputs) {
  const auto bytes = static_cast<std::ptrdiff_t>(sizeof(T));
  const std::int64_t tokens = (rows + item.group - 1) / item.group;
  const std::int64_t token = row / item.group;
  for (int g = 0; g < std::min(item.group, 4); ++g) {
    prefetcher.add(item.q + token * item.q_token + g * item.q_head, item.q_token * bytes, tokens);
    if (outputs) {
      prefetcher.add(item.out + token * item.out_token + g * item.out_head, item.out_token * bytes,
                     tokens);
    }
  }
}

}  // namespace ragged::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
