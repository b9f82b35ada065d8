#pragma once

// The sizes that kernels are compiled with, as plain numbers: host code chooses tiles by them.

#include <cstdint>

namespace ragged::sm80 {

// Tile::variant: which kernel of a head dim serves a rule.
enum class Variant : std::int32_t {
  short64 = 0,  // keys fit 64: one pass, two warps
  short128,     // keys fit 128: one pass, four warps
  few,          // streams keys, 64 rows
  brief,        // streams keys in small steps: segments of some hundred keys
  many,         // streams keys, 128 rows where registers allow
  fp32,         // plain products
};
inline constexpr int kNumVariants = 6;

inline constexpr int kMaxHeadDim = 256;

// A kernel that streams keys: each warp owns 16 * row_tiles rows and walks `keys` keys a step.
struct WalkShape {
  int warps;
  int row_tiles;
  int keys;
  int min_blocks;  // resident blocks of an SM that registers are cut for

  constexpr int rows() const { return warps * row_tiles * 16; }
  constexpr int threads() const { return warps * 32; }
};

// Shared memory stays below 99 KiB, what a block may use on every GPU from Ampere on: two key and
// value tiles beside the queries.
constexpr WalkShape many_shape(int padded_dim) {
  if (padded_dim <= 48) return {4, 2, 64, 3};
  if (padded_dim <= 128) return {4, 2, 64, 2};
  return {4, 1, 32, 2};
}
constexpr WalkShape few_shape(int padded_dim) {
  if (padded_dim <= 64) return {4, 1, 64, 4};
  if (padded_dim <= 96) return {4, 1, 64, 3};
  if (padded_dim <= 128) return {4, 1, 64, 2};
  return {4, 1, 32, 2};
}
// Three blocks of smaller steps hide more of an item's start and end than two of larger ones. D 64
// on one H200, two blocks of 64 keys against three of 32, us:
//   higgs-audio (200 tokens) 130, 106; dinov3-32 (201) 57, 52; bge-base-256 (up to 512) 478, 433
//   vit-large-64 (1024) 1042, 1070; whisper-16 (1500) 734, 752
inline constexpr WalkShape kBriefShape = {4, 2, 32, 3};
inline constexpr int kMostBriefKeys = 512;
constexpr bool has_brief(int padded_dim) { return padded_dim > 48 && padded_dim <= 64; }

constexpr WalkShape walk_shape(Variant variant, int padded_dim) {
  if (variant == Variant::few) return few_shape(padded_dim);
  return variant == Variant::brief ? kBriefShape : many_shape(padded_dim);
}
constexpr int walk_smem_bytes(const WalkShape& shape, int padded_dim) {
  return (shape.rows() + 4 * shape.keys) * padded_dim * 2 + shape.rows() * 4;
}

// A kernel whose keys fit shared memory at once: rows and keys up to 16 * key_tiles.
struct ShortShape {
  int warps;
  int min_tiles;  // key tiles that code is compiled for: from here
  int key_tiles;  // to here
  int min_blocks;

  constexpr int rows() const { return key_tiles * 16; }
  constexpr int threads() const { return warps * 32; }
};
inline constexpr int kMaxShortDim = 128;

constexpr ShortShape short64_shape(int padded_dim) {
  if (padded_dim <= 80) return {2, 1, 4, 7};
  return {2, 1, 4, 5};
}
constexpr ShortShape short128_shape(int padded_dim) {
  if (padded_dim <= 64) return {4, 5, 8, 4};
  if (padded_dim <= 80) return {4, 5, 8, 3};
  return {4, 5, 8, 2};
}
constexpr ShortShape short_shape(Variant variant, int padded_dim) {
  return variant == Variant::short64 ? short64_shape(padded_dim) : short128_shape(padded_dim);
}
constexpr int short_smem_bytes(const ShortShape& shape, int padded_dim) {
  return 3 * shape.rows() * padded_dim * 2;
}

// The kernel of fp32 products, whose tiles are compiled for these head dims.
inline constexpr int kPlainRows = 64;
inline constexpr int kPlainKeys = 32;
inline constexpr int kPlainThreads = 128;
constexpr int plain_dim(int head_dim) {
  return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}
constexpr int plain_smem_bytes(int dim) {
  return 4 * ((kPlainRows + kPlainKeys) * (dim + 4) + kPlainRows * (kPlainKeys + 4) + kPlainRows);
}

// Partial results of a slot: accumulators, row reference and row sum, fp32.
constexpr std::int64_t slot_bytes(const WalkShape& shape, int padded_dim) {
  return std::int64_t{4} * shape.rows() * (padded_dim + 2);
}

}  // namespace ragged::sm80
