// ragged draw: a plan as a picture.

#include <iostream>
#include <memory>

#include "atomic_file.hpp"
#include "backends/contract.hpp"
#include "commands.hpp"
#include "draw.hpp"
#include "execution.hpp"
#include "options.hpp"

namespace ragged::tools {
namespace {

struct DrawOptions {
  CaseOptions what;
  DeviceOptions where;
  std::string output;
  std::int64_t segments = 8;
};

int act(const DrawOptions& o) {
  const Case c = build_case(o.what);
  Plan plan;
  make_plan(plan, c.problem, c.layouts(), o.where.facts(), built_backends(), o.where.backend);
  const std::string svg = draw(c, plan, o.segments);
  if (o.output.empty()) {
    std::cout << svg;
  } else {
    write_file(o.output, svg);
  }
  return 0;
}

}  // namespace

Command add_draw(CLI::App& program) {
  auto o = std::make_shared<DrawOptions>();
  CLI::App* app =
      add_command(program, "draw", "Draw the segments, tiles and visible keys of a plan as SVG");
  add_value(*app, "", "--output", "FILE",
            "Where the picture goes; standard output unless said. Example: --output plan.svg",
            [o](const std::string& text) { o->output = text; });
  add_value(
      *app, "", "--segments", "N",
      "Draw the first N segments, 8 unless said. Example: --segments 3",
      [o](const std::string& text) { o->segments = parse_integer("--segments", text, 1, 64); });
  add_case_options(*app, o->what);
  add_device_options(*app, o->where);
  return {app, [o] { return act(*o); }};
}

}  // namespace ragged::tools
