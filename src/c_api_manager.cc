#include <ragged/c/manager.h>

#include <memory>

#include <ragged/manager.hpp>

#include "c_api_executor.hpp"
#include "c_api_run.hpp"
#include "c_api_step.hpp"

using namespace ragged::capi;

struct ragged_manager {
  ragged::RaggedAttentionManager manager;
};

namespace {

ragged::EngineOptions to_engine(const ragged_engine_options* engine) {
  ragged::EngineOptions result;
  if (engine == nullptr) return result;
  const ragged_engine_options c = read(engine, "engine");
  result.device = to_device(c.device, "engine->device");
  result.dtype = to_optional_dtype(c.dtype, "engine->dtype");
  if (c.num_shards != 0) result.num_shards = c.num_shards;
  if (c.num_slots != 0) result.num_slots = c.num_slots;
  result.threads = c.threads;
  result.executor = c.executor;
  return result;
}

const ragged::RaggedAttentionManager& of(const ragged_manager* manager) {
  require(manager, "manager");
  return manager->manager;
}

ragged::RaggedAttentionManager& of(ragged_manager* manager) {
  require(manager, "manager");
  return manager->manager;
}

}  // namespace

extern "C" {

int ragged_spec_resource_class(const ragged_spec* spec, char* buffer, size_t capacity,
                               size_t* length) {
  return guarded([&] {
    const ragged::AnyRaggedSpec any = to_spec(spec);
    put_text(std::visit([](const auto& s) { return s.resource_class(); }, any), buffer, capacity,
             length);
  });
}

int ragged_manager_create(const ragged_spec* spec, const ragged_engine_options* engine,
                          ragged_manager** manager) {
  return guarded([&] {
    require(manager, "manager");
    *manager = nullptr;
    *manager = std::make_unique<ragged_manager>(
                   ragged_manager{ragged::RaggedAttentionManager(to_spec(spec), to_engine(engine))})
                   .release();
  });
}

void ragged_manager_destroy(ragged_manager* manager) { delete manager; }

int ragged_manager_plan(ragged_manager* manager, const ragged_step* step,
                        const ragged_plan_context* context) {
  return guarded([&] {
    auto& m = of(manager);
    const StepContext given(context);
    std::visit([&](const auto& s) { m.plan(s, given.context()); }, to_step(step));
  });
}

int ragged_manager_preplan(ragged_manager* manager, const ragged_step* step,
                           const ragged_plan_context* context) {
  return guarded([&] {
    auto& m = of(manager);
    const StepContext given(context);
    std::visit([&](const auto& s) { m.preplan(s, given.context()); }, to_step(step));
  });
}

int ragged_manager_clear_preplan(ragged_manager* manager) {
  return guarded([&] { of(manager).clear_preplan(); });
}

int ragged_manager_preplan_pending(const ragged_manager* manager, int32_t* pending) {
  return guarded([&] {
    require(pending, "pending");
    *pending = of(manager).preplan_pending() ? 1 : 0;
  });
}

int ragged_manager_run(ragged_manager* manager, const char* label,
                       const ragged_run_arguments* arguments) {
  return guarded([&] {
    auto& m = of(manager);
    const std::string_view name = text(label, "label");
    const RunViews run = to_run_views(arguments);
    if (run.two_sources) {
      m.run_two_sources(name, run.q, run.prefix_k, run.prefix_v, run.k, run.v, run.out, run.lse,
                        run.stream);
    } else {
      m.run(name, run.q, run.k, run.v, run.out, run.lse, run.stream);
    }
  });
}

int ragged_manager_check(ragged_manager* manager, void* stream) {
  return guarded([&] { of(manager).check({stream}); });
}

int ragged_manager_num_segments(const ragged_manager* manager, const char* label,
                                int64_t* num_segments) {
  return guarded([&] {
    require(num_segments, "num_segments");
    *num_segments = of(manager).num_segments(text(label, "label"));
  });
}

int ragged_manager_num_planned_labels(const ragged_manager* manager, size_t* count) {
  return guarded([&] {
    require(count, "count");
    *count = of(manager).planned_labels().size();
  });
}

int ragged_manager_planned_label(const ragged_manager* manager, size_t index, char* buffer,
                                 size_t capacity, size_t* length) {
  return guarded([&] {
    const std::vector<std::string> labels = of(manager).planned_labels();
    if (index >= labels.size()) {
      refuse("index must be less than the planned labels, " + std::to_string(labels.size()) +
             "; got " + std::to_string(index));
    }
    put_text(labels[index], buffer, capacity, length);
  });
}

int ragged_manager_plan_of(const ragged_manager* manager, const char* label,
                           const ragged_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    *plan = nullptr;
    *plan = to_handle(of(manager).plan_of(text(label, "label")));
  });
}

int ragged_manager_resource_key(const ragged_manager* manager, char* buffer, size_t capacity,
                                size_t* length) {
  return guarded([&] { put_text(of(manager).resource_key(), buffer, capacity, length); });
}

int ragged_manager_kind(const ragged_manager* manager, ragged_kind* kind) {
  return guarded([&] {
    require(kind, "kind");
    *kind = static_cast<ragged_kind>(of(manager).kind());
  });
}

int ragged_manager_config(const ragged_manager* manager, ragged_config* config) {
  return guarded([&] { write(config, from_config(of(manager).config()), "config"); });
}

}  // extern "C"
