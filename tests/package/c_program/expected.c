#include "expected.h"

#include <math.h>

void fill(float* values, int64_t count, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 1u;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
  }
}

static int64_t visible_keys(struct mask mask, int64_t row, int64_t q_len, int64_t kv_len) {
  int64_t end = kv_len;
  if (mask.causal) end = row + kv_len - q_len + 1;
  if (mask.block_size > 0) end = (row / mask.block_size + 1) * mask.block_size;
  return end < 0 ? 0 : (end > kv_len ? kv_len : end);
}

double worst_difference(const float* q, const float* k, const float* v, const float* out,
                        int64_t q_len, int64_t kv_len, int64_t heads, int64_t dim,
                        struct mask mask) {
  double worst = 0.0;
  for (int64_t row = 0; row < q_len; ++row) {
    const int64_t keys = visible_keys(mask, row, q_len, kv_len);
    for (int64_t head = 0; head < heads; ++head) {
      const float* q_row = q + (row * heads + head) * dim;
      double score[256];
      double largest = -INFINITY;
      double total = 0.0;
      for (int64_t key = 0; key < keys; ++key) {
        score[key] = 0.0;
        for (int64_t d = 0; d < dim; ++d) {
          score[key] += (double)q_row[d] * (double)k[(key * heads + head) * dim + d];
        }
        score[key] /= sqrt((double)dim);
        largest = fmax(largest, score[key]);
      }
      for (int64_t key = 0; key < keys; ++key) {
        score[key] = exp(score[key] - largest);
        total += score[key];
      }
      for (int64_t d = 0; d < dim; ++d) {
        double sum = 0.0;
        for (int64_t key = 0; key < keys; ++key) {
          sum += score[key] / total * (double)v[(key * heads + head) * dim + d];
        }
        const double difference = fabs(sum - (double)out[(row * heads + head) * dim + d]);
        if (!(difference <= worst)) worst = isnan(difference) ? INFINITY : difference;
      }
    }
  }
  return worst;
}
