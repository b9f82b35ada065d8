#pragma once

// The program `ragged`, run as a user runs it.

#include <string>
#include <vector>

namespace ragged::tools {

struct Finished {
  int status = -1;  // exit status; -1 if a signal ended it
  std::string out;
  std::string err;
};

// Runs the program that this build made with these arguments.
Finished run_program(const std::vector<std::string>& arguments);

}  // namespace ragged::tools
