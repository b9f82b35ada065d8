#pragma once

// The subcommands. Each adds itself to the program and returns its action, which is called when the
// user asked for it and returns the exit status: 0 done, 1 a result is wrong or nothing serves the
// case. Bad input is thrown as ragged::Error.

#include <functional>

namespace CLI {
class App;
}

namespace ragged::tools {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> action;
};

Command add_run(CLI::App& program);
Command add_plan(CLI::App& program);
Command add_info(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_draw(CLI::App& program);

}  // namespace ragged::tools
