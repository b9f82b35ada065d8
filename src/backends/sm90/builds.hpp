#pragma once

// Which kernels this build has, with the evidence for each choice. Microseconds on one H200 (bf16,
// medians of ten replays of a graph of at least four calls, inputs rotated past the L2 cache, half
// a second of rest before); c = consumer warpgroups, b = keys of a step, s = steps in flight.

#include <cstdint>
#include <limits>

namespace ragged::sm90 {

// A build of the long kernel, for segments of at most `max_keys` keys. Teams: team.cuh.
struct LongBuild {
  int head_dim;
  std::int64_t max_keys;
  int consumers;
  int keys;
  int stages;
  int query_slots;
  // Most rows, in tiles of 64, of a segment that teams take: each tile is an item of its own, whose
  // keys all warpgroups of the block share. 0: no teams.
  int team_tiles;
};

inline constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();

// D  32: vjepa2-predictor (8192)        3c b128 s4 274, 4c b64 s6 294
//        minilm-64 (up to 200 tokens)   4c b64 s6 24
// D  64: higgs-audio (200 tokens)       3c b128 s4 75, 4c b64 s6 58; two blocks of 2c b48 70
//        dinov3-32 (201 tokens)         3c b128 s4 36, 4c b64 s6 29; two blocks of 2c b48 33
//        vit-large-64 (1024)            3c b128 s4 518, 4c b64 s6 488; two blocks of 2c b48 585
//        whisper-16 (1500)              3c b128 s4 340, 4c b64 s6 346; two blocks of 2c b48 398
//        8 x 4096 tokens                3c b128 s4 899, 4c b64 s6 981
// D  72: qwen3vl-mixed (256 to 8836)    3c b96 s4 856, 3c b112 s3 964, 3c b128 s3 889
//        siglip-64 (729)                3c b96 s4 368, 3c b112 s3 378, 3c b128 s3 393
// D  80: qwen25vl-full-batch (4096)     3c b112 s3 1105; 128 keys serialize the products: registers
// D 128: flux (4608)                    3c b64 s4 366, 3c b80 s3 370, 2c b128 s2 374, 2c b176 s2
// 379
//        bagel-flow (two sources)       3c b64 s4 1360, 3c b80 s3 1461, 2c b128 s2 1579
//        causal-gqa (8 x 4096)          3c b64 s4 1585, 3c b80 s3 1602, 2c b128 s2 1607
//        wan5b-cross (512 keys)         3c b64 s4 217, 3c b80 s3 234, 2c b128 s2 218
// D 256: pi05-action (50 tokens of 8 heads on one, 1,018 keys)  teams of 2c b64 s2 21.9; sm80 30
// Teams: whisper-cross-decode (one token over up to 1500 keys) 31.9 without, 20.0 with;
// ltx-audio-video (126 over 8160) 76, 68; ltx-audio-text (126 over 1024) 16.2, 14.0
inline constexpr LongBuild kLongBuilds[] = {
    {32, 1280, 4, 64, 6, 2, 2},        {32, kAnyLength, 3, 128, 4, 2, 0},
    {64, 1280, 4, 64, 6, 2, 2},        {64, kAnyLength, 3, 128, 4, 2, 0},
    {72, kAnyLength, 3, 96, 4, 2, 2},  {80, kAnyLength, 3, 112, 3, 2, 2},
    {96, kAnyLength, 3, 96, 3, 2, 2},  {128, kAnyLength, 3, 64, 4, 1, 2},
    {256, kAnyLength, 2, 64, 2, 1, 8},
};

// Build number `nth` of a head dim, by rising lengths; null beyond the last.
constexpr const LongBuild* long_build(int head_dim, int nth = 0) {
  for (const LongBuild& build : kLongBuilds) {
    if (build.head_dim == head_dim && nth-- == 0) return &build;
  }
  return nullptr;
}

// Short kernel: at most one build for a head dim, for segments of at most `keys` keys.
struct ShortBuild {
  int head_dim;
  int keys;
  int tiles;   // of 64 rows, in a unit
  int blocks;  // that a multiprocessor holds
};

// D 32: minilm-2048 (5 to 128 tokens)         215; long kernel 4c b64 507
// D 64: aut-512 (104 tokens)                  112 keys, 5 blocks 157; 128 keys, 4 blocks 169
//       ltx-video-audio (8160 over 126 keys)  long kernel 4c b64 70, short of 128 keys 76
// D 80: qwen25vl-window-video (64 tokens)     181
inline constexpr ShortBuild kShortBuilds[] = {
    {32, 128, 2, 5}, {64, 112, 2, 5}, {72, 64, 1, 5}, {80, 64, 1, 5}};

constexpr const ShortBuild* short_build(int head_dim) {
  for (const ShortBuild& build : kShortBuilds) {
    if (build.head_dim == head_dim) return &build;
  }
  return nullptr;
}

// Tile::variant: the short kernel, or number `variant - kFirstLong` of the head dim's long builds.
inline constexpr int kShort = 0;
inline constexpr int kFirstLong = 1;

}  // namespace ragged::sm90
