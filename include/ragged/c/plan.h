#pragma once

// The plan that a wrapper or a manager runs: what was chosen, and why. A ragged_plan is borrowed
// from its wrapper or manager: it lives until their next plan or their end, and is not destroyed.

#include <ragged/c/base.h>

RAGGED_C_BEGIN

typedef struct ragged_plan ragged_plan;

// The figures of a plan. The caller sets struct_size; what an older library does not know is 0.
typedef struct ragged_plan_info {
  size_t struct_size;
  ragged_kind kind;
  ragged_backend backend;
  int64_t num_segments;     // zero-length ones included
  int64_t total_tokens;     // query rows
  int64_t total_kv_tokens;  // key rows; prefix and fresh together
  int64_t num_units;        // work units: ranges of one segment's query rows
  int64_t num_items;        // units times head groups
  size_t workspace_bytes;
  double flops;         // 4 * visible scores * num_qo_heads * head_dim
  double bytes;         // of q, k, v and out, each once
  int64_t rows_useful;  // query rows, and those that the tiles compute
  int64_t rows_computed;
  double scores_useful;  // visible scores, and those that the tiles compute
  double scores_computed;
} ragged_plan_info;

RAGGED_C_API int ragged_plan_get_info(const ragged_plan* plan, ragged_plan_info* info);

// For people: backend, tiles, work, waste, workspace, and what each other backend lacked.
RAGGED_C_API int ragged_plan_explain(const ragged_plan* plan, char* buffer, size_t capacity,
                                     size_t* length);
// The same as JSON; the flag `with_units` adds the work list.
RAGGED_C_API int ragged_plan_json(const ragged_plan* plan, int with_units, char* buffer,
                                  size_t capacity, size_t* length);

RAGGED_C_END
