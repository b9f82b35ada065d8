#pragma once

// Which kernels this build has, with the evidence for each choice. Microseconds on one H200 (bf16,
// medians of ten replays of a graph of four calls, inputs rotated past the L2 cache); c = consumer
// warpgroups, b = keys of a step, s = steps in flight.

namespace ragged::sm90 {

// Tile::variant.
enum class Kernel { long_segments, short_segments };

// Long kernel: one build for a head dim.
struct LongBuild {
  int head_dim;
  int consumers;
  int keys;
  int stages;
  int query_slots;
};

// D  64: whisper-16 (16 x 1500)      3c b128 s4 353, 4c b64 s6 374
//        streaming-whisper-16        3c b128 s4 267, 4c b64 s6 273
//        vit-large-64 (64 x 1024)    3c b128 s4 538, 4c b64 s6 528
// D  80: 128 keys would serialize the products: registers.
// D 128: flux (4608)                 3c b64 s4 368, 3c b80 s3 370, 2c b128 s2 374, 2c b176 s2 379
//        bagel-flow (two sources)    3c b64 s4 1388, 3c b80 s3 1461, 2c b128 s2 1579
//        causal-gqa (8 x 4096)       3c b64 s4 1585, 3c b80 s3 1602, 2c b128 s2 1607
//        wan5b-cross (512 keys)      3c b64 s4 223, 3c b80 s3 234, 2c b128 s2 218
inline constexpr LongBuild kLongBuilds[] = {
    {32, 3, 128, 4, 2}, {64, 3, 128, 4, 2}, {72, 3, 112, 3, 2},
    {80, 3, 112, 3, 2}, {96, 3, 96, 3, 2},  {128, 3, 64, 4, 1},
};

constexpr const LongBuild* long_build(int head_dim) {
  for (const LongBuild& build : kLongBuilds) {
    if (build.head_dim == head_dim) return &build;
  }
  return nullptr;
}

// Short kernel: one build for a head dim, for segments of at most `keys` keys.
struct ShortBuild {
  int head_dim;
  int keys;
  int tiles;   // of 64 rows, in a unit
  int blocks;  // that a multiprocessor holds
};

// D 32: minilm-2048 (5 to 128 tokens)         218; the long kernel alone was not measured
// D 64: aut-512 (104 tokens)                  112 keys, 5 blocks 159; 128 keys, 4 blocks 169
//       ltx-video-audio (8160 over 126 keys)  long kernel 72, short of 128 keys 76
// D 80: qwen25vl-window-video (64 tokens)     198
inline constexpr ShortBuild kShortBuilds[] = {{32, 128, 2, 5}, {64, 112, 2, 5}, {80, 64, 1, 5}};

constexpr const ShortBuild* short_build(int head_dim) {
  for (const ShortBuild& build : kShortBuilds) {
    if (build.head_dim == head_dim) return &build;
  }
  return nullptr;
}

}  // namespace ragged::sm90
