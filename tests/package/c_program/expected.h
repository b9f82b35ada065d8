#ifndef C_PROGRAM_EXPECTED_H
#define C_PROGRAM_EXPECTED_H

#include <stdint.h>

// Which keys a row of a segment sees.
struct mask {
  int causal;          // bottom-right aligned
  int64_t block_size;  // 0: none
};

// Fills `count` values in [-1, 1) from a fixed sequence.
void fill(float* values, int64_t count, uint32_t seed);

// Attention of one segment of q_len rows over kv_len keys in double precision, [tokens, heads,
// dim], one key head for every query head. Returns the largest difference to `out`, NaN as
// infinity.
double worst_difference(const float* q, const float* k, const float* v, const float* out,
                        int64_t q_len, int64_t kv_len, int64_t heads, int64_t dim,
                        struct mask mask);

#endif
