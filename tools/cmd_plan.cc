// ragged plan: which backend would serve a case on a device, with which tiles, and why.

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "atomic_file.hpp"
#include "backends/contract.hpp"
#include "commands.hpp"
#include "execution.hpp"
#include "options.hpp"

namespace ragged::tools {
namespace {

struct PlanOptions {
  CaseOptions what;
  DeviceOptions where;
  bool json = false;
  bool units = false;
};

bool is_built(RaggedAttnBackend id) {
  const auto built = built_backends();
  return std::any_of(built.begin(), built.end(),
                     [id](const Backend* backend) { return backend->id() == id; });
}

// "sm90, sm80": backends that this build lacks; empty if it has all.
std::string not_built() {
  std::string names;
  for (const RaggedAttnBackend id :
       {RaggedAttnBackend::CPU, RaggedAttnBackend::SM90, RaggedAttnBackend::SM80,
        RaggedAttnBackend::CUDNN, RaggedAttnBackend::FLASHINFER, RaggedAttnBackend::REFERENCE}) {
    if (!is_built(id)) {
      names += (names.empty() ? "" : ", ") + std::string(to_string(id));
    }
  }
  return names;
}

bool is_h200(const DeviceFacts& facts) {
  return facts.name == "h200" || facts.model.find("H200") != std::string::npos;
}

// The work list, one line a unit in the order that workers take them.
void print_units(const Plan& plan) {
  std::cout << "units (segment, first row, rows, tile rule), by falling cost:\n";
  for (const WorkUnit& unit : plan.work_units()) {
    std::cout << "  " << unit.segment << ' ' << unit.row_begin << ' ' << unit.rows << ' '
              << unit.rule << '\n';
  }
}

void print_text(const Case& c, const Plan& plan, const std::optional<H200Goal>& goal, bool units) {
  std::cout << "case       " << c.name << '\n' << plan.explain();
  if (goal) {
    std::cout << "h200       floor " << goal->floor_us << " us, best measured peer "
              << goal->best_peer_us << " us (" << goal->best_peer << "), goal " << goal->goal_us
              << " us\n";
  }
  if (units) print_units(plan);
}

void print_json(const Case& c, const Plan& plan, const std::optional<H200Goal>& goal, bool units) {
  auto json = nlohmann::ordered_json::parse(plan.to_json(units));
  json["name"] = c.name;
  if (goal) {
    json["h200_goal"] = {{"floor_us", goal->floor_us},
                         {"best_peer", goal->best_peer},
                         {"best_peer_us", goal->best_peer_us},
                         {"goal_us", goal->goal_us}};
  }
  std::cout << json.dump(1) << '\n';
}

int act(const PlanOptions& o) {
  const Case c = build_case(o.what);
  const DeviceFacts facts = o.where.facts();
  const StepLayouts layouts = c.layouts();
  const auto goal = is_h200(facts) && o.what.workload ? h200_goal(c.name) : std::nullopt;
  Plan plan;
  try {
    make_plan(plan, c.problem, layouts, facts, built_backends(), o.where.backend);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    // Well asked, and the answer is no: the decision is the reasons.
    if (o.json) {
      nlohmann::ordered_json json = {{"name", c.name},
                                     {"device", facts.to_string()},
                                     {"backend", nullptr},
                                     {"unsupported", error.what()}};
      std::cout << json.dump(1) << '\n';
    } else {
      std::cout << c.name << ": " << c.describe() << "\non " << facts.to_string() << ": "
                << error.what() << '\n';
      const std::string missing = not_built();
      if (!missing.empty()) std::cout << "not in this build: " << missing << '\n';
    }
    return 1;
  }
  (o.json ? print_json : print_text)(c, plan, goal, o.units);
  return 0;
}

}  // namespace

Command add_plan(CLI::App& program) {
  auto o = std::make_shared<PlanOptions>();
  CLI::App* app = add_command(
      program, "plan",
      "Show which backend would serve a case, with which tiles, and what the others lack; "
      "for any device, also one that is not here. 1 if none serves it");
  add_case_options(*app, o->what);
  add_device_options(*app, o->where);
  add_flag(*app, "", "--json", "As JSON. Example: --workload flux --json", o->json);
  add_flag(*app, "", "--units", "With the work list. Example: --lengths 100,900 --units", o->units);
  return {app, [o] { return act(*o); }};
}

}  // namespace ragged::tools
