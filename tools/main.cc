// The command-line program `ragged`.

#include "program.hpp"

int main(int argc, char** argv) { return ragged::tools::run_program(argc, argv); }
