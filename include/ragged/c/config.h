#pragma once

// What a model says about its attention once, at load.

#include <ragged/c/base.h>

RAGGED_C_BEGIN

// ragged::RaggedAttentionConfig.
typedef struct ragged_config {
  size_t struct_size;
  int32_t num_qo_heads;              // before sharding
  int32_t num_kv_heads;              // before sharding; divides num_qo_heads
  int32_t head_dim;                  // of q, k and v alike; 1..256, a multiple of 8
  int32_t has_sm_scale;              // flag: sm_scale is given
  double sm_scale;                   // without has_sm_scale 0, which stands for head_dim ** -0.5
  int64_t max_segments_per_request;  // 0: 1
  int64_t max_tokens_per_request;    // 0: no such ceiling
  ragged_backend backend;
  ragged_dtype dtype;              // RAGGED_DTYPE_NONE: the engine's own
  const char* flashinfer_backend;  // "auto", "fa2" or "fa3"; NULL: "auto"
  // Head counts as declared, kept by the first ragged_config_shard; 0 before it.
  int32_t unsharded_num_qo_heads;
  int32_t unsharded_num_kv_heads;
} ragged_config;

// Refused as RAGGED_ERROR_INVALID_ARGUMENT, naming the first field that is out of its range.
RAGGED_C_API int ragged_config_validate(const ragged_config* config);

// Narrows the head counts to one rank's slice, always from the unsharded counts, so twice is the
// same as once. With at least as many shards as key heads, every rank keeps one replicated key
// head. Counts that do not divide are refused by name and `config` stays as it was. `config` must
// be large enough to hold the unsharded counts.
RAGGED_C_API int ragged_config_shard(ragged_config* config, int32_t num_shards);

// Applies one deployment override: "flashinfer_backend", "max_segments_per_request" or
// "max_tokens_per_request"; any other key is refused by name. Text that it stores is static.
RAGGED_C_API int ragged_config_override(ragged_config* config, const char* key, const char* value);

// bs * max_segments_per_request.
RAGGED_C_API int ragged_config_max_segments_for(const ragged_config* config, int64_t bs,
                                                int64_t* max_segments);
// bs * max_tokens_per_request, or -1 where no such ceiling was declared.
RAGGED_C_API int ragged_config_max_tokens_for(const ragged_config* config, int64_t bs,
                                              int64_t* max_tokens);
// sm_scale, or head_dim ** -0.5 on the true head dim.
RAGGED_C_API int ragged_config_sm_scale(const ragged_config* config, double* sm_scale);

// The label of the plan that a pair runs under: "q<-kv".
RAGGED_C_API int ragged_cross_label(const char* q_label, const char* kv_label, char* buffer,
                                    size_t capacity, size_t* length);

// The smallest head dim that FlashInfer supports at or above head_dim: 64, 128 or 256.
RAGGED_C_API int ragged_padded_head_dim(int32_t head_dim, int32_t* padded);

// What a model hands to the engine at load. Pointers are read during the call that takes it.
typedef struct ragged_spec {
  size_t struct_size;
  const char* resource_key;
  const char* const* nodes;  // [num_nodes] names
  size_t num_nodes;
  const ragged_config* config;
  int64_t block_size;  // tokens; RAGGED_KIND_BLOCK_CAUSAL only, at least 1; 0 for the other kinds
  ragged_kind kind;
  int32_t reserved;  // 0
} ragged_spec;

// Names what builds the spec, without loading it.
RAGGED_C_API int ragged_spec_resource_class(const ragged_spec* spec, char* buffer, size_t capacity,
                                            size_t* length);

RAGGED_C_END
