#pragma once

// One resource for each spec: labels to wrappers, eager and captured slots; plan a step, run by
// label.

#include <ragged/c/config.h>
#include <ragged/c/wrapper.h>

RAGGED_C_BEGIN

typedef struct ragged_manager ragged_manager;

// ragged::EngineOptions.
typedef struct ragged_engine_options {
  size_t struct_size;
  ragged_device device;
  ragged_dtype dtype;  // activation dtype, where the config names none
  int32_t num_shards;  // tensor times sequence parallel degree; 0: 1
  int32_t num_slots;   // 0: 2
  int32_t threads;     // CPU workers of a run; 0: what the executor offers
  ragged_executor* executor;
} ragged_engine_options;

// Arrays of structs: every element holds the same struct_size, which is the distance between them.

// One span of one request in the packed layout that its label names.
typedef struct ragged_segment {
  size_t struct_size;
  const char* request_id;
  const char* label;  // NULL: "main"
  int64_t span;       // tokens; 0 is a segment with no rows
} ragged_segment;

// Every request's q span attends that request's kv span.
typedef struct ragged_label_pair {
  size_t struct_size;
  const char* q_label;
  const char* kv_label;  // of prefixed attention: the prefix
} ragged_label_pair;

// Which of the three step types a ragged_step is.
enum {
  RAGGED_STEP_ATTENTION = 0,  // self and block-causal resources; segments, causal
  RAGGED_STEP_CROSS = 1,      // cross resources; segments, pairs
  RAGGED_STEP_PREFIXED = 2    // prefixed resources; segments, pairs, causal, two_sources
};

// What one step declares. Fields that its type does not have stay 0. Pointers are read during the
// call that takes it.
typedef struct ragged_step {
  size_t struct_size;
  int32_t type;                    // RAGGED_STEP_...
  int32_t has_segments;            // flag; 0: inherits the enclosing step's segments
  const ragged_segment* segments;  // [num_segments], in declared order
  size_t num_segments;
  const ragged_label_pair* pairs;  // [num_pairs]
  size_t num_pairs;                // at least 1 where a step that takes pairs has segments
  int32_t causal;                  // flag; 0 for block-causal resources
  int32_t two_sources;  // flag: run with prefix K/V and fresh K/V in tensors of their own
} ragged_step;

// The right to plan into one captured slot: selects the wrapper of (bucket, slot, label). The
// bucket is graph_walk, bs, num_tokens and extra.
typedef struct ragged_slot_lease {
  size_t struct_size;
  const char* graph_walk;  // NULL: ""
  const char* extra;       // for diffusion transformers, the latent shape; NULL: ""
  int64_t bs;              // requests
  int64_t num_tokens;      // token count of the bucket
  int32_t slot;
  int32_t reserved;  // 0
} ragged_slot_lease;

typedef struct ragged_plan_context {
  size_t struct_size;
  const ragged_slot_lease* lease;  // NULL: eager, the wrapper of (label, slot)
  // Segments of the enclosing step, for a step that gives none: [num_inherited_segments].
  const ragged_segment* inherited_segments;
  size_t num_inherited_segments;
  int32_t slot;      // eager only
  int32_t reserved;  // 0
  void* stream;      // cudaStream_t that the step is planned on; NULL on the CPU
} ragged_plan_context;

// `engine` may be NULL: all defaults. On refusal `*manager` is NULL; the message names the field,
// the head counts that do not divide, or the resource that has no dtype.
RAGGED_C_API int ragged_manager_create(const ragged_spec* spec, const ragged_engine_options* engine,
                                       ragged_manager** manager);
RAGGED_C_API void ragged_manager_destroy(ragged_manager* manager);

// Plans every label (self, block-causal) or pair (cross, prefixed) of the step; a label that the
// step does not declare cannot be run afterwards. A pending preplan is promoted if this step and
// lease are the ones that were preplanned, else refused as RAGGED_ERROR_INVALID_STATE. On a refusal
// no label is planned. `context` may be NULL: eager, slot 0, nothing to inherit.
RAGGED_C_API int ragged_manager_plan(ragged_manager* manager, const ragged_step* step,
                                     const ragged_plan_context* context);
// Plans step N+1 while step N runs. Needs a lease; one may be pending; otherwise refused as
// RAGGED_ERROR_INVALID_STATE.
RAGGED_C_API int ragged_manager_preplan(ragged_manager* manager, const ragged_step* step,
                                        const ragged_plan_context* context);
// Drops a pending preplan; without one, nothing happens.
RAGGED_C_API int ragged_manager_clear_preplan(ragged_manager* manager);
RAGGED_C_API int ragged_manager_preplan_pending(const ragged_manager* manager, int32_t* pending);

// Runs the plan of `label` (for pairs, the one of ragged_cross_label). RAGGED_ERROR_NOT_PLANNED
// names the label and the planned ones. prefix_k and prefix_v go with steps of two sources.
RAGGED_C_API int ragged_manager_run(ragged_manager* manager, const char* label,
                                    const ragged_run_arguments* arguments);

// ragged_wrapper_check for every label of the step.
RAGGED_C_API int ragged_manager_check(ragged_manager* manager, void* stream);

// Declared segments of the label's last plan, zero-span ones included.
RAGGED_C_API int ragged_manager_num_segments(const ragged_manager* manager, const char* label,
                                             int64_t* num_segments);
RAGGED_C_API int ragged_manager_num_planned_labels(const ragged_manager* manager, size_t* count);
RAGGED_C_API int ragged_manager_planned_label(const ragged_manager* manager, size_t index,
                                              char* buffer, size_t capacity, size_t* length);
// The plan that `label` runs under this step, borrowed until the next one.
RAGGED_C_API int ragged_manager_plan_of(const ragged_manager* manager, const char* label,
                                        const ragged_plan** plan);

RAGGED_C_API int ragged_manager_resource_key(const ragged_manager* manager, char* buffer,
                                             size_t capacity, size_t* length);
RAGGED_C_API int ragged_manager_kind(const ragged_manager* manager, ragged_kind* kind);
// This rank's config, dtype resolved. Its text is static.
RAGGED_C_API int ragged_manager_config(const ragged_manager* manager, ragged_config* config);

RAGGED_C_END
