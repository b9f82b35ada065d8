#pragma once

// What the command `ragged` does, for the module: the command itself, and pictures of plans.

#include <cstdint>
#include <string>
#include <vector>

#include <ragged/plan.hpp>

namespace ragged::python {

// The plan's first `most_segments` segments as SVG.
std::string picture_of(const Plan& plan, std::int64_t most_segments);

// Runs the command with these words after its name; returns its exit status.
int run_command(const std::vector<std::string>& words);

}  // namespace ragged::python
