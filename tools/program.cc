#include "program.hpp"

#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <ragged/error.hpp>
#include <ragged/version.hpp>

#include "commands.hpp"

namespace ragged::tools {
namespace {

constexpr int kUnsupported = 1;
constexpr int kBadInput = 2;

int refused(std::string line, int status) {
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::cerr << "ragged: " << line << '\n';
  return status;
}

int bad_input(const std::string& line) { return refused(line, kBadInput); }

// What the parser found wrong, in the words of the other errors: argument, expected, came.
std::string explain(const CLI::ParseError& error, const std::string& first) {
  std::string text = error.what();
  const std::string option = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return "command: expected one of run, plan, info, bench, draw; got " +
           (first.empty() ? "none" : "'" + first + "'") + "; 'ragged --help' tells them apart";
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string extras = text.substr(text.rfind(": ") + 2);
    const std::size_t dash = extras.find('-');
    const std::string extra = extras.substr(dash == std::string::npos ? 0 : dash);
    return extra.substr(0, extra.find(' ')) + ": expected an option of 'ragged " + first +
           " --help'";
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool twice = text.find("received") != std::string::npos;
    return option + ": expected " + (twice ? "it once, got it again" : "a value, got none");
  }
  return text;
}

int parse_and_act(int argc, char** argv) {
  CLI::App program("Attention over packed sequences of different lengths", "ragged");
  program.set_version_flag("--version", std::string("ragged ") + RAGGED_VERSION);
  program.require_subcommand(1);
  std::vector<Command> commands = {add_run(program), add_plan(program), add_info(program),
                                   add_bench(program), add_draw(program)};
  // After the commands, which would take it over.
  program.footer(
      "Examples:\n"
      "  ragged run --lengths 3,17,512 --heads 16 --head-dim 72\n"
      "  ragged plan --workload qwen25vl-window --device cpu:avx2:64\n"
      "  ragged draw --lengths 300,80,200 --causal --output plan.svg\n"
      "'ragged COMMAND --help' shows a command's options.");
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return program.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return bad_input(explain(error, argc > 1 ? argv[1] : ""));
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const int status = command.action();
    std::cout.flush();
    return std::cout ? status : bad_input("standard output: writing failed");
  }
  return kBadInput;  // not reached: one command is required
}

}  // namespace

int run_program(int argc, char** argv) {
  try {
    return parse_and_act(argc, argv);
  } catch (const Error& error) {
    return refused(error.what(), error.code() == ErrorCode::unsupported ? kUnsupported : kBadInput);
  } catch (const std::bad_alloc&) {
    return bad_input("out of memory");
  } catch (const std::exception& error) {
    return bad_input(error.what());
  }
}

}  // namespace ragged::tools
