#include <ragged/c/config.h>

#include "c_api_values.hpp"

using namespace ragged::capi;

namespace {

// Writes back what a change made of `config`. A struct too old to hold the unsharded counts would
// lose them in silence: refused before.
void change(ragged_config* config, auto&& action) {
  ragged::RaggedAttentionConfig changed = to_config(config, "config");
  action(changed);
  const std::size_t size = config->struct_size;
  if (changed.unsharded && size < sizeof(ragged_config)) {
    refuse("config->struct_size must hold the unsharded counts, " +
           std::to_string(sizeof(ragged_config)) + " bytes; got " + std::to_string(size));
  }
  write(config, from_config(changed), "config");
}

}  // namespace

extern "C" {

const char* ragged_dtype_name(ragged_dtype dtype) {
  if (dtype < RAGGED_DTYPE_BF16 || dtype > RAGGED_DTYPE_FP32) return "unknown";
  return ragged::to_string(static_cast<ragged::DType>(dtype - 1)).data();
}

const char* ragged_kind_name(ragged_kind kind) {
  if (kind < RAGGED_KIND_SELF || kind > RAGGED_KIND_PREFIXED) return "unknown";
  return ragged::to_string(static_cast<ragged::AttentionKind>(kind)).data();
}

const char* ragged_backend_name(ragged_backend backend) {
  if (backend < RAGGED_BACKEND_AUTO || backend > RAGGED_BACKEND_CUDNN) return "unknown";
  return ragged::to_string(static_cast<ragged::RaggedAttnBackend>(backend)).data();
}

int ragged_dtype_parse(const char* name, ragged_dtype* dtype) {
  return guarded([&] {
    require(dtype, "dtype");
    *dtype = from_dtype(ragged::parse_dtype(text(name, "text")));
  });
}

int ragged_kind_parse(const char* name, ragged_kind* kind) {
  return guarded([&] {
    require(kind, "kind");
    *kind = static_cast<ragged_kind>(ragged::parse_kind(text(name, "text")));
  });
}

int ragged_backend_parse(const char* name, ragged_backend* backend) {
  return guarded([&] {
    require(backend, "backend");
    *backend = static_cast<ragged_backend>(ragged::parse_backend(text(name, "text")));
  });
}

int ragged_device_parse(const char* name, ragged_device* device) {
  return guarded([&] {
    require(device, "device");
    const ragged::Device parsed = ragged::parse_device(text(name, "text"));
    *device = {static_cast<std::int32_t>(parsed.kind), parsed.index};
  });
}

int ragged_config_validate(const ragged_config* config) {
  return guarded([&] { to_config(config, "config").validate(); });
}

int ragged_config_shard(ragged_config* config, int32_t num_shards) {
  return guarded([&] {
    change(config, [&](ragged::RaggedAttentionConfig& c) {
      // shard() divides by the counts, so they must be in range first.
      c.validate();
      c.shard(num_shards);
    });
  });
}

int ragged_config_override(ragged_config* config, const char* key, const char* value) {
  return guarded([&] {
    change(config, [&](ragged::RaggedAttentionConfig& c) {
      c.override_field(text(key, "key"), text(value, "value"));
    });
  });
}

int ragged_config_max_segments_for(const ragged_config* config, int64_t bs, int64_t* max_segments) {
  return guarded([&] {
    require(max_segments, "max_segments");
    *max_segments = to_config(config, "config").max_segments_for(bs);
  });
}

int ragged_config_max_tokens_for(const ragged_config* config, int64_t bs, int64_t* max_tokens) {
  return guarded([&] {
    require(max_tokens, "max_tokens");
    *max_tokens = to_config(config, "config").max_tokens_for(bs).value_or(-1);
  });
}

int ragged_config_sm_scale(const ragged_config* config, double* sm_scale) {
  return guarded([&] {
    require(sm_scale, "sm_scale");
    const ragged::RaggedAttentionConfig c = to_config(config, "config");
    c.validate();
    *sm_scale = c.resolved_sm_scale();
  });
}

int ragged_cross_label(const char* q_label, const char* kv_label, char* buffer, size_t capacity,
                       size_t* length) {
  return guarded([&] {
    put_text(ragged::cross_label(text(q_label, "q_label"), text(kv_label, "kv_label")), buffer,
             capacity, length);
  });
}

int ragged_padded_head_dim(int32_t head_dim, int32_t* padded) {
  return guarded([&] {
    require(padded, "padded");
    *padded = ragged::padded_head_dim(head_dim);
  });
}

}  // extern "C"
