#pragma once

// Sizes that the choice of tiles, the scratch and every target's kernel agree on. All are functions
// of the problem, the device and the segment's own lengths: a row's bits depend on nothing else.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ragged::cpu {

// Keys of one softmax step, at most. 64 to 256 differ by a few per cent; the scores of a panel of
// 64 rows then take 32 KiB.
inline constexpr int kMaxBlock = 128;
// Every block but a segment's last is a multiple of this, which holds the key tile of every target.
inline constexpr int kBlockStep = 8;
// Rows of a panel, at most: four vectors of 16 lanes.
inline constexpr int kMaxPanelRows = 64;
inline constexpr int kMaxLanes = 16;

// Keys of each block of a segment: the fewest blocks, evened out.
constexpr int block_keys(std::int64_t kv_len) {
  if (kv_len <= 0) return kBlockStep;
  const std::int64_t blocks = (kv_len + kMaxBlock - 1) / kMaxBlock;
  const std::int64_t even = (kv_len + blocks - 1) / blocks;
  return static_cast<int>((even + kBlockStep - 1) / kBlockStep * kBlockStep);
}

// Which way a segment's keys are read; Tile::variant.
enum class Variant : std::int32_t {
  in_place = 0,  // where they lie: fp32 keys that few rows meet
  packed = 1,    // copied chunk by chunk, converted on the way
  matrix = 2,    // bf16 on the processor's matrix tiles (matrix.hpp)
};
// Rows (query rows times heads of the group) up to which copying does not pay.
inline constexpr std::int64_t kInPlaceRows = 128;
// Keys that so few rows walk before the next ones are fetched ahead, at most.
inline constexpr std::int64_t kFewRowsChunk = 256;

// Whether value rows `stride_bytes` apart fall on so few sets of a first-level cache (64 sets of 64
// bytes, 12 ways at most) that a block of them does not stay in it. They are then copied even where
// keys are read in place: each panel walks its values once for every few rows.
constexpr bool rows_collide(std::ptrdiff_t stride_bytes, int block) {
  const std::int64_t lines = (stride_bytes < 0 ? -stride_bytes : stride_bytes) / 64;
  std::int64_t period = 64;  // rows after which the sets repeat
  while (period > 1 && lines * (period / 2) % 64 == 0) period /= 2;
  return block > 12 * period;
}

// The largest number of at most `most`, and at least 1, that divides `number`: equal parts.
constexpr std::int64_t largest_divisor(std::int64_t number, std::int64_t most) {
  std::int64_t part = std::max<std::int64_t>(most, 1);
  while (number % part != 0) --part;
  return part;
}

// One worker's scratch, in floats from its start; every part is aligned to 64 bytes.
struct ScratchShape {
  std::int64_t chunk_keys = 0;  // packed keys held at once, at least one block
  std::int64_t kept_rows = 0;   // rows whose sums are held at once
  std::size_t queries = 0;      // [head_dim][panel rows]
  std::size_t scores = 0;       // [kMaxBlock][panel rows]
  std::size_t outputs = 0;      // [kept_rows][head_dim]
  std::size_t tails = 0;        // [8][kept_rows], by panel
  std::size_t references = 0;   // [kept_rows]
  std::size_t sums = 0;         // [kept_rows]
  std::size_t finished = 0;     // [kMaxPanelRows][head_dim], on their way past the caches
  std::size_t keys = 0;         // [chunk_keys][head_dim]
  std::size_t values = 0;       // [chunk_keys][head_dim rounded up to 16]
  std::size_t total = 0;
};

// Rows of a work unit that the scratch must be able to hold.
constexpr std::int64_t unit_rows_limit(int head_dim, int threads) {
  // Enough rows to pay for packing the keys; sums of at most 1 MiB; more units for more workers.
  const std::int64_t rows = 262144 / std::max(head_dim, 64);
  if (threads <= 8) return rows;
  // Sums of all workers within 24 MiB, as long as packing pays.
  const std::int64_t most = (std::int64_t{24} << 20) / (std::int64_t{4} * head_dim * threads);
  return std::clamp<std::int64_t>(most, kInPlaceRows, std::max<std::int64_t>(rows / 4, 512));
}

// Packed keys and values that a worker holds: within a second-level cache, and within 24 MiB over
// all workers.
constexpr std::int64_t chunk_keys_limit(int head_dim, int threads) {
  const std::int64_t budget = std::min<std::int64_t>(
      std::int64_t{1} << 20, (std::int64_t{24} << 20) / std::max(threads, 1));
  const std::int64_t keys = budget / (8 * std::max(head_dim, 16));
  return std::max<std::int64_t>(keys / kMaxBlock * kMaxBlock, kMaxBlock);
}

constexpr ScratchShape scratch_shape(int head_dim, int threads, std::int64_t max_unit_rows,
                                     std::int64_t max_kv_length) {
  ScratchShape shape;
  const std::int64_t limit = chunk_keys_limit(head_dim, threads);
  // Whole blocks of the largest size: any segment of these lengths then fits as one chunk.
  const std::int64_t need = (max_kv_length + kMaxBlock - 1) / kMaxBlock * kMaxBlock;
  shape.chunk_keys = std::min(limit, std::max<std::int64_t>(need, kMaxBlock));
  const bool several_chunks = max_kv_length > shape.chunk_keys;
  const std::int64_t rows = (max_unit_rows + kMaxPanelRows - 1) / kMaxPanelRows * kMaxPanelRows;
  // Few rows walk any number of keys in short chunks.
  constexpr std::int64_t kFew = (kInPlaceRows + kMaxPanelRows - 1) / kMaxPanelRows * kMaxPanelRows;
  shape.kept_rows = several_chunks ? std::max(rows, kFew) : kFew;

  const auto dim = static_cast<std::size_t>(head_dim);
  const auto kept = static_cast<std::size_t>(shape.kept_rows);
  const auto chunk = static_cast<std::size_t>(shape.chunk_keys);
  std::size_t at = 0;
  const auto take = [&at](std::size_t floats) {
    const std::size_t begin = at;
    at += (floats + 15) / 16 * 16;
    return begin;
  };
  shape.queries = take(dim * kMaxPanelRows);
  shape.scores = take(std::size_t{kMaxBlock} * kMaxPanelRows);
  shape.outputs = take(kept * dim);
  shape.tails = take(kept * 8);
  shape.references = take(kept);
  shape.sums = take(kept);
  shape.finished = take(std::size_t{kMaxPanelRows} * dim);
  shape.keys = take(chunk * dim);
  shape.values = take(chunk * ((dim + kMaxLanes - 1) / kMaxLanes * kMaxLanes));
  shape.total = at;
  return shape;
}

}  // namespace ragged::cpu
