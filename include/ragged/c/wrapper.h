#pragma once

// A wrapper owns one plan and its static buffers: create once, plan a step, run for every layer.

#include <ragged/c/plan.h>
#include <ragged/c/runtime.h>
#include <ragged/c/tensor.h>

RAGGED_C_BEGIN

typedef struct ragged_wrapper ragged_wrapper;

// ragged::WrapperOptions.
typedef struct ragged_wrapper_options {
  size_t struct_size;
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t has_sm_scale;  // flag: sm_scale is given
  double sm_scale;       // without has_sm_scale 0, which stands for head_dim ** -0.5
  // Ceilings, 0 for none; all that apply are needed with accelerator_graph, and checked wherever
  // given.
  int64_t max_num_segments;
  int64_t max_total_tokens;
  int64_t max_total_kv_tokens;  // cross and prefixed; 0: max_total_tokens
  ragged_device device;
  // Flag: capacity mode. Choices and buffers come from the ceilings alone, and a plan allocates
  // nothing.
  int32_t accelerator_graph;
  ragged_dtype q_data_type;  // RAGGED_DTYPE_NONE: bf16
  ragged_backend backend;
  int32_t threads;            // CPU workers of a run; 0: what the executor offers
  int64_t block_size;         // tokens; RAGGED_KIND_BLOCK_CAUSAL only, at least 1
  ragged_executor* executor;  // NULL: the process-wide pool; must outlive the wrapper
  // Device facts to plan on, for example "cpu:avx2:8"; NULL: this machine's.
  const char* facts;
  // Scratch that the caller owns, aligned to 64 bytes; NULL: the wrapper's own.
  void* workspace;
  size_t workspace_bytes;
} ragged_wrapper_options;

// Self, cross, prefixed or block-causal attention. On refusal `*wrapper` is NULL and the message
// names the option that is out of its range or missing.
RAGGED_C_API int ragged_wrapper_create(ragged_kind kind, const ragged_wrapper_options* options,
                                       ragged_wrapper** wrapper);
RAGGED_C_API void ragged_wrapper_destroy(ragged_wrapper* wrapper);

// Planning. Offsets are [num_segments + 1], first 0, never falling; host memory preferred. They are
// copied: the caller's arrays are free after the call, those on a GPU when the stream has come to
// it. A layout equal to the last costs next to nothing. On a refusal the plan before it still
// works. A wrapper of another kind is refused.

// RAGGED_KIND_SELF; and RAGGED_KIND_BLOCK_CAUSAL with causal = 0.
RAGGED_C_API int ragged_wrapper_plan(ragged_wrapper* wrapper, const ragged_index* cu_seqlens,
                                     int causal);
RAGGED_C_API int ragged_wrapper_plan_spans(ragged_wrapper* wrapper, const ragged_spans* spans,
                                           int causal);
// RAGGED_KIND_CROSS: query segment i attends key segment i.
RAGGED_C_API int ragged_wrapper_plan_cross(ragged_wrapper* wrapper,
                                           const ragged_index* q_cu_seqlens,
                                           const ragged_index* kv_cu_seqlens);
RAGGED_C_API int ragged_wrapper_plan_cross_spans(ragged_wrapper* wrapper, const ragged_spans* q,
                                                 const ragged_spans* kv);
// RAGGED_KIND_PREFIXED, keys already joined: kv_cu_seqlens counts prefix and fresh tokens.
RAGGED_C_API int ragged_wrapper_plan_prefixed(ragged_wrapper* wrapper,
                                              const ragged_index* q_cu_seqlens,
                                              const ragged_index* kv_cu_seqlens, int causal);
// RAGGED_KIND_PREFIXED, two sources: prefix K/V laid out by prefix_cu_seqlens, fresh K/V by
// fresh_cu_seqlens; NULL: as the queries. Never joined in memory.
RAGGED_C_API int ragged_wrapper_plan_two_sources(ragged_wrapper* wrapper,
                                                 const ragged_index* q_cu_seqlens,
                                                 const ragged_index* prefix_cu_seqlens,
                                                 const ragged_index* fresh_cu_seqlens, int causal);

// The stream (cudaStream_t) that later plans of the wrapper start on; NULL, as at first: the
// default stream. Nothing on the CPU.
RAGGED_C_API int ragged_wrapper_set_plan_stream(ragged_wrapper* wrapper, void* stream);

// The tensors of one run.
typedef struct ragged_run_arguments {
  size_t struct_size;
  const ragged_tensor* q;         // [>= tokens, num_qo_heads, head_dim]
  const ragged_tensor* k;         // [>= key tokens, num_kv_heads, head_dim]; fresh with two sources
  const ragged_tensor* v;         // as k
  const ragged_tensor* out;       // as q; rows outside every segment stay untouched
  const ragged_lse* lse;          // [>= tokens, num_qo_heads]; NULL: not asked for
  const ragged_tensor* prefix_k;  // two sources only: [>= prefix tokens, num_kv_heads, head_dim]
  const ragged_tensor* prefix_v;  // as prefix_k
  void* stream;                   // cudaStream_t; NULL on the CPU
} ragged_run_arguments;

// Runs the last plan. Refused as RAGGED_ERROR_INVALID_ARGUMENT naming the argument, what the plan
// holds and what came; as RAGGED_ERROR_NOT_PLANNED before a plan.
RAGGED_C_API int ragged_wrapper_run(ragged_wrapper* wrapper, const ragged_run_arguments* arguments);

// Offsets on a GPU are checked there: waits for the stream (cudaStream_t) and says what was found,
// as the plan does for offsets on the host.
RAGGED_C_API int ragged_wrapper_check(ragged_wrapper* wrapper, void* stream);

RAGGED_C_API int ragged_wrapper_kind(const ragged_wrapper* wrapper, ragged_kind* kind);
// 1 after the first plan.
RAGGED_C_API int ragged_wrapper_planned(const ragged_wrapper* wrapper, int32_t* planned);
// Segments of the last plan, zero-length ones included.
RAGGED_C_API int ragged_wrapper_num_segments(const ragged_wrapper* wrapper, int64_t* num_segments);
// Exact scratch size of the last plan; in capacity mode known from creation.
RAGGED_C_API int ragged_wrapper_workspace_bytes(const ragged_wrapper* wrapper, size_t* bytes);
// The last plan, borrowed until the next one.
RAGGED_C_API int ragged_wrapper_current_plan(const ragged_wrapper* wrapper,
                                             const ragged_plan** plan);
// ragged_plan_explain of the last plan.
RAGGED_C_API int ragged_wrapper_explain(const ragged_wrapper* wrapper, char* buffer,
                                        size_t capacity, size_t* length);
// ragged_plan_json of the last plan.
RAGGED_C_API int ragged_wrapper_plan_json(const ragged_wrapper* wrapper, int with_units,
                                          char* buffer, size_t capacity, size_t* length);

RAGGED_C_END
