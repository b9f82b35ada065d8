#pragma once

// What a process sets up around attention: who runs the work, a log, and the backends of the build.

#include <ragged/c/plan.h>

RAGGED_C_BEGIN

// Calls of one executor. `context` is handed back to each.
typedef struct ragged_executor_callbacks {
  size_t struct_size;
  void* context;
  // Workers that run can keep busy at once, the calling thread included; at least 1.
  int (*concurrency)(void* context);
  // Calls task(task_context, worker) once for each worker in [0, num_workers), possibly at the same
  // time, and returns when all calls have returned. May be called from several threads at once.
  void (*run)(void* context, int num_workers, void (*task)(void* task_context, int worker),
              void* task_context);
} ragged_executor_callbacks;

// Who runs the work of CPU plans, in place of the process-wide pool. Must outlive the wrappers and
// managers that were given it.
typedef struct ragged_executor ragged_executor;
RAGGED_C_API int ragged_executor_create(const ragged_executor_callbacks* callbacks,
                                        ragged_executor** executor);
RAGGED_C_API void ragged_executor_destroy(ragged_executor* executor);

// What a log callback receives before each run.
typedef struct ragged_log_record {
  size_t struct_size;
  const ragged_plan* plan;  // valid during the call
} ragged_log_record;

typedef void (*ragged_log_callback)(void* context, const ragged_log_record* record);

// Sets the process-wide callback, or removes it with NULL. It may be called from several threads at
// once, must not set the callback itself, and `context` must outlive it. Off, a run pays one load.
RAGGED_C_API int ragged_set_log(ragged_log_callback callback, void* context);

// A problem without any layout, to ask what a backend lacks for it.
typedef struct ragged_problem {
  size_t struct_size;
  ragged_kind kind;
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  double sm_scale;  // without has_sm_scale 0, which stands for head_dim ** -0.5
  int32_t has_sm_scale;
  ragged_dtype dtype;
  int64_t block_size;   // tokens; RAGGED_KIND_BLOCK_CAUSAL only
  int32_t causal;       // flag; RAGGED_KIND_SELF and RAGGED_KIND_PREFIXED only
  int32_t two_sources;  // flag; RAGGED_KIND_PREFIXED only
} ragged_problem;

// How many backends the interface names, and those: first the built ones in AUTO's order of
// preference, then the ones that this build lacks.
RAGGED_C_API int ragged_num_backends(int32_t* count);
RAGGED_C_API int ragged_backend_at(int32_t index, ragged_backend* backend);
// 1 if the backend is in this build.
RAGGED_C_API int ragged_backend_built(ragged_backend backend, int32_t* built);

// Why the backend cannot serve the problem on the device, in one line; "" if it can. `device` is
// "cpu", "cpu:avx2:8", "h200" and so on, also one that is not here; NULL: this machine's CPU.
RAGGED_C_API int ragged_backend_lacks(ragged_backend backend, const ragged_problem* problem,
                                      const char* device, char* buffer, size_t capacity,
                                      size_t* length);

RAGGED_C_END
