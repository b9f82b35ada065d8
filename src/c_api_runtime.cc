#include <ragged/c/runtime.h>

#include <algorithm>
#include <array>
#include <memory>

#include <ragged/run.hpp>

#include "backends/contract.hpp"
#include "c_api_executor.hpp"
#include "c_api_values.hpp"

using namespace ragged::capi;

namespace {

constexpr int kNumBackends = RAGGED_BACKEND_CUDNN - RAGGED_BACKEND_AUTO;

// The backend of this build with that id, or null.
const ragged::Backend* built_backend(ragged_backend id) {
  for (const ragged::Backend* backend : ragged::built_backends()) {
    if (static_cast<ragged_backend>(backend->id()) == id) return backend;
  }
  return nullptr;
}

// Every backend that the interface names: the built ones by preference, then the others.
std::array<ragged_backend, kNumBackends> all_backends() {
  std::array<ragged_backend, kNumBackends> all = {};
  std::size_t count = 0;
  for (const ragged::Backend* backend : ragged::built_backends()) {
    all.at(count++) = static_cast<ragged_backend>(backend->id());
  }
  for (ragged_backend id = RAGGED_BACKEND_AUTO + 1; id <= RAGGED_BACKEND_CUDNN; ++id) {
    if (built_backend(id) == nullptr) all.at(count++) = id;
  }
  return all;
}

ragged_backend named_backend(ragged_backend backend) {
  if (to_backend(backend, "backend") == ragged::RaggedAttnBackend::AUTO) {
    refuse("backend must name one backend; got auto");
  }
  return backend;
}

ragged::Problem to_problem(const ragged_problem* problem) {
  const ragged_problem c = read(problem, "problem");
  ragged::Problem result;
  result.kind = to_kind(c.kind, "problem->kind");
  result.num_qo_heads = c.num_qo_heads;
  result.num_kv_heads = c.num_kv_heads;
  result.head_dim = c.head_dim;
  result.dtype = to_dtype(c.dtype, "problem->dtype");
  result.causal = flag(c.causal, "problem->causal");
  result.block_size = c.block_size;
  result.two_sources = flag(c.two_sources, "problem->two_sources");
  ragged::RaggedAttentionConfig scale;
  scale.head_dim = c.head_dim;
  scale.sm_scale = to_sm_scale(c.has_sm_scale, c.sm_scale);
  // A head dim out of its range has no scale; validate() names it below.
  result.sm_scale = c.head_dim > 0 ? scale.resolved_sm_scale() : 1.0;
  result.validate();
  return result;
}

}  // namespace

extern "C" {

int ragged_executor_create(const ragged_executor_callbacks* callbacks, ragged_executor** executor) {
  return guarded([&] {
    require(executor, "executor");
    *executor = nullptr;
    const ragged_executor_callbacks c = read(callbacks, "callbacks");
    if (c.concurrency == nullptr) refuse("callbacks->concurrency must not be NULL");
    if (c.run == nullptr) refuse("callbacks->run must not be NULL");
    *executor = std::make_unique<ragged_executor>(c).release();
  });
}

void ragged_executor_destroy(ragged_executor* executor) { delete executor; }

int ragged_set_log(ragged_log_callback callback, void* context) {
  return guarded([&] {
    if (callback == nullptr) {
      ragged::set_run_log({});
      return;
    }
    ragged::set_run_log([callback, context](const ragged::RunRecord& record) {
      const ragged_log_record c = {sizeof(c), to_handle(*record.plan)};
      callback(context, &c);
    });
  });
}

int ragged_num_backends(int32_t* count) {
  return guarded([&] {
    require(count, "count");
    *count = kNumBackends;
  });
}

int ragged_backend_at(int32_t index, ragged_backend* backend) {
  return guarded([&] {
    require(backend, "backend");
    if (index < 0 || index >= kNumBackends) {
      refuse("index must be in 0.." + std::to_string(kNumBackends - 1) + "; got " +
             std::to_string(index));
    }
    *backend = all_backends()[static_cast<std::size_t>(index)];
  });
}

int ragged_backend_built(ragged_backend backend, int32_t* built) {
  return guarded([&] {
    require(built, "built");
    *built = built_backend(named_backend(backend)) != nullptr ? 1 : 0;
  });
}

int ragged_backend_lacks(ragged_backend backend, const ragged_problem* problem, const char* device,
                         char* buffer, size_t capacity, size_t* length) {
  return guarded([&] {
    const ragged::Problem asked = to_problem(problem);
    const ragged::DeviceFacts facts =
        device == nullptr ? ragged::DeviceFacts::host() : ragged::DeviceFacts::parse(device);
    const ragged::Backend* found = built_backend(named_backend(backend));
    const std::string reason =
        found != nullptr ? found->declines(asked, facts)
                         : std::string(ragged_backend_name(backend)) +
                               " is not in this build; RAGGED_BACKENDS names those that are";
    put_text(reason, buffer, capacity, length);
  });
}

}  // extern "C"
