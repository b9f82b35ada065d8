#pragma once

#include <functional>
#include <string>

#include "backends/target.hpp"

namespace ragged::test {

// Adds one test under `<target>/<suite>.<name>`. Where a target that may decline does so, the test
// is skipped with the reason.
void register_test(const Target& target, const std::string& suite, const std::string& name,
                   const char* file, int line, std::function<void()> body);
// The same for what is no target of this machine.
void register_test(const std::string& target, const std::string& suite, const std::string& name,
                   const char* file, int line, std::function<void()> body);

// Calls `make` once for each target, to register tests that are made from data. The result only
// lets static storage call it.
bool add_generated_tests(void (*make)(const Target& target));

}  // namespace ragged::test
