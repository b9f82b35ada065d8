#pragma once

namespace ragged::tools {

// The command-line program `ragged`, as main() and the Python package run it: reads the options,
// acts, and returns the exit status. 0 done; 1 a result is out of tolerance, or no backend serves
// the case; 2 bad input. 2, and 1 without a result, come with one line on standard error.
int run_program(int argc, char** argv);

}  // namespace ragged::tools
