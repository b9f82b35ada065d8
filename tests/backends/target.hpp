#pragma once

// What a test runs against: a backend that is built, the device facts to plan on, and the memory
// that its tensors live in. A test written here runs once for each target, as
// `<target>/<suite>.<name>`.

#include <string>
#include <vector>

#include "backends/contract.hpp"
#include "support/memory.hpp"

namespace ragged::test {

struct Target {
  std::string name;  // "cpu", "cpu_avx2"
  const Backend* backend = nullptr;
  DeviceFacts facts;
  Memory* memory = nullptr;
  // Double precision and no vectors: too slow for long inputs.
  bool slow = false;
  // Whether it may decline a dtype or a mask; otherwise a refusal is a failure.
  bool may_decline = false;
  // Whether a run may refuse rows that do not start at 16 bytes.
  bool may_refuse_alignment = false;
  // Whether NaN in a row of v may reach rows of its segment that do not see it.
  bool may_spread_nan = false;
  // Nodes that a captured run has beside one for each kernel that the tile table names.
  std::size_t extra_nodes = 0;
  // Whether a run may refuse an out with gaps between its rows.
  bool needs_dense_out = false;
  // An older instruction set of a backend that is also tested in full.
  bool narrowed = false;
};

// Every target of this build on this machine.
const std::vector<Target>& targets();

// What this build would test on another machine, and what this one lacks. Each is one test,
// `<name>/machine.present`, that is skipped with the reason.
struct AbsentTarget {
  std::string name;
  std::string reason;
};
const std::vector<AbsentTarget>& absent_targets();

using TargetTest = void (*)(const Target& target);

// Adds a test for every target. The result only lets static storage call it.
bool add_target_test(const char* suite, const char* name, TargetTest body, const char* file,
                     int line);

}  // namespace ragged::test

// TARGET_TEST(isolation, huge_neighbour) { ... target ... }
#define TARGET_TEST(suite, name)                                                                 \
  static void suite##_##name##_body(const ::ragged::test::Target& target);                       \
  [[maybe_unused]] static const bool suite##_##name##_added =                                    \
      ::ragged::test::add_target_test(#suite, #name, suite##_##name##_body, __FILE__, __LINE__); \
  static void suite##_##name##_body([[maybe_unused]] const ::ragged::test::Target& target)
