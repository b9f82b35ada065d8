#include <ragged/c/plan.h>

#include "c_api_values.hpp"

using namespace ragged::capi;

extern "C" {

int ragged_plan_get_info(const ragged_plan* plan, ragged_plan_info* info) {
  return guarded([&] {
    const ragged::Plan& p = from_handle(plan);
    const ragged::Waste waste = p.waste();
    ragged_plan_info c = {};
    c.kind = static_cast<ragged_kind>(p.problem.kind);
    c.backend = static_cast<ragged_backend>(ragged::parse_backend(p.backend_name));
    c.num_segments = p.layouts.q.num_segments();
    c.total_tokens = p.layouts.q.total_tokens();
    c.total_kv_tokens = p.layouts.keys().total_tokens() + p.layouts.prefix.total_tokens();
    c.num_units = p.num_units;
    c.num_items = p.num_items();
    c.workspace_bytes = p.workspace_bytes;
    c.flops = p.flops();
    c.bytes = p.bytes();
    c.rows_useful = waste.rows_useful;
    c.rows_computed = waste.rows_computed;
    c.scores_useful = waste.scores_useful;
    c.scores_computed = waste.scores_computed;
    write(info, c, "info");
  });
}

int ragged_plan_explain(const ragged_plan* plan, char* buffer, size_t capacity, size_t* length) {
  return guarded([&] { put_text(from_handle(plan).explain(), buffer, capacity, length); });
}

int ragged_plan_json(const ragged_plan* plan, int with_units, char* buffer, size_t capacity,
                     size_t* length) {
  return guarded([&] {
    put_text(from_handle(plan).to_json(flag(with_units, "with_units")), buffer, capacity, length);
  });
}

}  // extern "C"
