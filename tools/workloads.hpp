#pragma once

// Named workloads: the attention shapes of real models and of the CPU suite.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ragged/plan.hpp>

namespace ragged::tools {

struct Workload {
  std::string name;
  Problem problem;                       // sm_scale is head_dim ** -0.5
  std::vector<std::int64_t> q_lengths;   // tokens of each query segment
  std::vector<std::int64_t> kv_lengths;  // cross: tokens of each key segment
  std::vector<std::int64_t>
      prefix_lengths;  // prefixed: keys of segment i are prefix + query tokens
  int layers = 1;      // how often a step of the model runs it
  std::string model;
};

// Reads a list of workloads: bench/workloads/*.json describes the form. `origin` names the text in
// errors. Throws ragged::Error(invalid_argument) naming the workload, the field and what came.
std::vector<Workload> parse_workloads(std::string_view json, const std::string& origin);

// A suite of this build: "cpu" (W1 to W9) or "models". Throws invalid_argument naming both.
const std::vector<Workload>& suite(std::string_view name);

// A workload of any suite. Throws invalid_argument with the nearest names.
const Workload& find_workload(std::string_view name);

// What a workload should take on an H200, from physical limits and measured peers.
struct H200Goal {
  double floor_us = 0;
  double best_peer_us = 0;
  double goal_us = 0;
  std::string best_peer;
};
std::optional<H200Goal> h200_goal(std::string_view workload);

}  // namespace ragged::tools
