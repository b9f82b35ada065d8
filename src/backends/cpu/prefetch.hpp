#pragma once

// Software prefetch of the next work item, spread over the inner loops of the current one. A short
// segment is otherwise read from memory in a burst that no arithmetic hides.

#include <cstddef>
#include <cstdint>

namespace ragged::cpu {

// Memory to be fetched ahead of its use: `rows` rows of `row_bytes` bytes, `stride_bytes` apart.
struct Span {
  const char* first = nullptr;
  std::int64_t row_bytes = 0;
  std::ptrdiff_t stride_bytes = 0;
  std::int64_t rows = 0;
};

// Rows still to be fetched, as a list of strided streams. The inner loops call tick() every eight
// steps; each tick fetches a fixed number of whole rows, because a smooth fractional rate costs
// more in branches than it wins. One stream ends and the next begins without a call, so that the
// loops keep their registers.
class Prefetcher {
 public:
  // Forgets every stream.
  void clear() noexcept {
    count_ = 0;
    total_rows_ = 0;
    rows_per_tick_ = 0;
  }
  // Adds `rows` rows of `row_bytes` bytes, `stride_bytes` apart. Streams beyond the capacity are
  // dropped: a prefetch is only a hint.
  void add(const void* first, std::ptrdiff_t stride_bytes, std::int64_t rows) noexcept {
    if (rows <= 0 || count_ == kMaxStreams) return;
    streams_[count_++] = {static_cast<const char*>(first), stride_bytes, rows, 1, 0};
    total_rows_ += rows;
  }
  // Fetches `num` spans and nothing else, line by line, spread over about `ticks` ticks.
  void start_spans(const Span* spans, int num, std::int64_t ticks) noexcept {
    clear();
    std::int64_t lines = 0;
    for (int i = 0; i < num; ++i) lines += spans[i].rows * lines_of(spans[i].row_bytes);
    if (lines == 0) return;
    const std::int64_t rate = (lines + ticks - 1) / (ticks > 0 ? ticks : 1);
    const std::int64_t piece = rate < kMaxLinesPerTick ? rate : kMaxLinesPerTick;
    for (int i = 0; i < num && count_ < kMaxStreams; ++i) {
      Span span = spans[i];
      if (span.stride_bytes == span.row_bytes) {
        span.row_bytes *= span.rows;
        span.rows = 1;
      }
      if (span.rows <= 0 || span.row_bytes <= 0) continue;
      const std::int64_t pieces = (lines_of(span.row_bytes) + piece - 1) / piece;
      streams_[count_++] = {span.first, piece * kLine, pieces, span.rows,
                            span.stride_bytes - pieces * piece * kLine};
    }
    total_rows_ = 1;  // one piece a tick
    start(1, piece * kLine);
  }
  // Spreads the rows over about `ticks` ticks; `row_bytes` is the size of every row.
  void start(std::int64_t ticks, std::int64_t row_bytes) noexcept {
    if (count_ == 0) return;
    lines_ = static_cast<int>((row_bytes + kLine - 1) / kLine);
    const std::int64_t rate = (total_rows_ + ticks - 1) / (ticks > 0 ? ticks : 1);
    rows_per_tick_ = static_cast<int>(rate < kMaxRowsPerTick ? rate : kMaxRowsPerTick);
    next_ = 0;
    NextStream();
  }

  // Inlined into the inner loops.
#if defined(__GNUC__)
  __attribute__((always_inline))
#endif
  inline void
  tick() noexcept {
    for (int i = 0; i < rows_per_tick_; ++i) {
      const char* p = at_;
      for (int line = 0; line < lines_; ++line) {
        __builtin_prefetch(p, 0, 2);  // to the second-level cache
        p += kLine;
      }
      at_ += stride_;
      if (--rows_ == 0) {
        if (--repeats_ > 0) {
          at_ += jump_;
          rows_ = streams_[next_ - 1].rows;
        } else if (next_ == count_) {
          rows_per_tick_ = 0;
        } else {
          NextStream();
        }
      }
    }
  }

 private:
#if defined(__GNUC__)
  __attribute__((always_inline))
#endif
  inline void
  NextStream() noexcept {
    const Stream& stream = streams_[next_++];
    at_ = stream.first;
    stride_ = stream.stride_bytes;
    rows_ = stream.rows;
    repeats_ = stream.repeats;
    jump_ = stream.jump_bytes;
  }
  static std::int64_t lines_of(std::int64_t bytes) noexcept { return (bytes + kLine - 1) / kLine; }

  static constexpr std::int64_t kMaxLinesPerTick = 24;
  static constexpr int kMaxStreams = 12;
  static constexpr int kMaxRowsPerTick = 12;
  static constexpr std::int64_t kLine = 64;  // bytes

  struct Stream {
    const char* first;
    std::ptrdiff_t stride_bytes;
    std::int64_t rows;
    std::int64_t repeats;  // of those rows, each `jump_bytes` behind the end of the last
    std::ptrdiff_t jump_bytes;
  };
  const char* at_ = nullptr;
  std::ptrdiff_t stride_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t repeats_ = 0;
  std::ptrdiff_t jump_ = 0;
  int rows_per_tick_ = 0;
  int lines_ = 0;
  int next_ = 0;
  int count_ = 0;
  std::int64_t total_rows_ = 0;
  Stream streams_[kMaxStreams] = {};
};

}  // namespace ragged::cpu
