#include "manager.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "picture.hpp"
#include "run_tensors.hpp"
#include "steps.hpp"
#include "wrapper.hpp"

namespace ragged::python {

nb::dict Manager::plan(nb::handle step, nb::handle context, nb::handle stream) {
  const AnyStep any = step_of(step);
  const HeldContext held(context);
  const Stream on = stream_for(engine_.device, stream, nb::none());
  {
    const nb::gil_scoped_release unlocked;
    const std::lock_guard lock(mutex_);
    std::visit([&](const auto& s) { manager_.plan(s, held.view(on)); }, any);
  }
  nb::dict rows;
  for (const std::string& label : manager_.planned_labels()) {
    rows[label.c_str()] = covered_rows(manager_.plan_of(label));
  }
  return rows;
}

void Manager::preplan(nb::handle step, nb::handle context, nb::handle stream) {
  const AnyStep any = step_of(step);
  const HeldContext held(context);
  const Stream on = stream_for(engine_.device, stream, nb::none());
  const nb::gil_scoped_release unlocked;
  const std::lock_guard lock(mutex_);
  std::visit([&](const auto& s) { manager_.preplan(s, held.view(on)); }, any);
}

void Manager::clear_preplan() {
  const nb::gil_scoped_release unlocked;
  const std::lock_guard lock(mutex_);
  manager_.clear_preplan();
}

void Manager::run(std::string_view label, nb::handle q, nb::handle k, nb::handle v, nb::handle out,
                  nb::handle lse, nb::handle stream) {
  const RunTensors t(q, k, v, out, lse, stream);
  const RunViews views(t);
  const nb::gil_scoped_release unlocked;
  const std::lock_guard lock(mutex_);
  manager_.run(label, views.q, views.k, views.v, views.out, views.lse, t.stream);
}

void Manager::run_two_sources(std::string_view label, nb::handle q, nb::handle prefix_k,
                              nb::handle prefix_v, nb::handle k, nb::handle v, nb::handle out,
                              nb::handle lse, nb::handle stream) {
  const RunTensors t(q, k, v, out, lse, stream);
  const TensorArgument pk(prefix_k, "prefix_k", Access::read);
  const TensorArgument pv(prefix_v, "prefix_v", Access::read);
  const RunViews views(t);
  const TensorView pk_view = pk.view();
  const TensorView pv_view = pv.view();
  const nb::gil_scoped_release unlocked;
  const std::lock_guard lock(mutex_);
  manager_.run_two_sources(label, views.q, pk_view, pv_view, views.k, views.v, views.out, views.lse,
                           t.stream);
}

namespace {

void construct(Manager* place, std::string_view kind, nb::handle spec, nb::handle config_dtype,
               std::string_view device, const std::optional<std::string>& dtype, int num_shards,
               int num_slots, int threads) {
  EngineOptions engine;
  engine.device = parse_device(device);
  if (dtype) engine.dtype = parse_dtype(*dtype);
  engine.num_shards = num_shards;
  engine.num_slots = num_slots;
  engine.threads = threads;
  new (place) Manager(spec_of(parse_kind(kind), spec, config_dtype), engine);
}

}  // namespace

void bind_manager(nb::module_& module) {
  using nb::arg;
  nb::class_<Manager>(module, "Manager", "One resource; see the module manager.")
      .def("__init__", construct, arg("kind"), arg("spec"), arg("config_dtype").none(),
           arg("device"), arg("dtype").none(), arg("num_shards"), arg("num_slots"), arg("threads"))
      .def("plan", &Manager::plan, arg("step"), arg("context").none(), arg("stream").none())
      .def("preplan", &Manager::preplan, arg("step"), arg("context").none(), arg("stream").none())
      .def("clear_preplan", &Manager::clear_preplan)
      .def("run", &Manager::run, arg("label"), arg("q").none(), arg("k").none(), arg("v").none(),
           arg("out").none(), arg("lse").none(), arg("stream").none())
      .def("run_two_sources", &Manager::run_two_sources, arg("label"), arg("q").none(),
           arg("prefix_k").none(), arg("prefix_v").none(), arg("k").none(), arg("v").none(),
           arg("out").none(), arg("lse").none(), arg("stream").none())
      .def_prop_ro("preplan_pending", [](Manager& m) { return m.manager().preplan_pending(); })
      .def(
          "num_segments",
          [](Manager& m, std::string_view label) { return m.manager().num_segments(label); },
          arg("label"))
      .def("planned_labels", [](Manager& m) { return m.manager().planned_labels(); })
      .def_prop_ro("dtype",
                   [](Manager& m) { return std::string(to_string(*m.manager().config().dtype)); })
      .def(
          "explain",
          [](Manager& m, std::string_view label) { return m.manager().plan_of(label).explain(); },
          arg("label"))
      .def(
          "to_json",
          [](Manager& m, std::string_view label, bool units) {
            return m.manager().plan_of(label).to_json(units);
          },
          arg("label"), arg("with_units"))
      .def(
          "draw",
          [](Manager& m, std::string_view label, std::int64_t most) {
            return picture_of(m.manager().plan_of(label), most);
          },
          arg("label"), arg("segments"));
}

}  // namespace ragged::python
