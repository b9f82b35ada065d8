#pragma once

#include <functional>
#include <string>

#include "backends/target.hpp"

namespace ragged::test {

// Adds one test under `<target>/<suite>.<name>`.
void register_test(const std::string& target, const std::string& suite, const std::string& name,
                   const char* file, int line, std::function<void()> body);

// Calls `make` once for each target, to register tests that are made from data. The result only
// lets static storage call it.
bool add_generated_tests(void (*make)(const Target& target));

}  // namespace ragged::test
