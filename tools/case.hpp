#pragma once

// One step to compute, as a user names it: by lengths and shapes, or by a workload.

#include <optional>
#include <string>
#include <vector>

#include <ragged/plan.hpp>

#include "workloads.hpp"

namespace CLI {
class App;
}

namespace ragged::tools {

struct Case {
  std::string name;  // the workload's, the file's, or "lengths"
  Problem problem;
  std::vector<std::int64_t> q_lengths;
  std::vector<std::int64_t> kv_lengths;      // cross, and prefixed keys that are already joined
  std::vector<std::int64_t> prefix_lengths;  // prefixed, where the prefix is known apart

  // Keys of each segment, prefix included.
  [[nodiscard]] std::vector<std::int64_t> key_lengths() const;
  // For make_plan; two sources if problem.two_sources. Throws where segment counts differ.
  [[nodiscard]] StepLayouts layouts() const;
  // "self, 3 segments, 532 tokens, 16 heads of 72, fp32".
  [[nodiscard]] std::string describe() const;
};

// What the options --lengths, --kv-lengths, --prefix-lengths, --workload and the shape options say.
struct CaseOptions {
  std::optional<std::vector<std::int64_t>> lengths;
  std::optional<std::vector<std::int64_t>> kv_lengths;
  std::optional<std::vector<std::int64_t>> prefix_lengths;
  std::optional<std::string> workload;
  std::optional<std::int64_t> block_size;
  std::optional<int> num_qo_heads;
  std::optional<int> num_kv_heads;
  std::optional<int> head_dim;
  std::optional<DType> dtype;
  std::optional<double> sm_scale;
  bool causal = false;
  bool two_sources = false;
};

// Adds those options to a subcommand.
void add_case_options(CLI::App& app, CaseOptions& options);

Case case_of(const Workload& workload);

// Throws ragged::Error(invalid_argument) naming the option that is missing, at odds with another,
// or out of its range.
Case build_case(const CaseOptions& options);

// Applies the options that name a shape, dtype, scale or mask over what a workload or file said.
void override_problem(Problem& problem, const CaseOptions& options);

}  // namespace ragged::tools
