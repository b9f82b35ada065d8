#pragma once

// Times one provider on one case: every sample between two probes of what the machine gives just
// then, on inputs that rotate past the last-level cache.

#include <functional>
#include <string>
#include <vector>

#include <ragged/run.hpp>

#include "tensors.hpp"

namespace ragged::tools {

// One way to compute a planned step.
struct Provider {
  std::string name;     // "ragged/cpu", "openblas-q128"
  std::string version;  // of a peer's library; empty for ours
  std::function<void(const RunArguments&)> run;
};

struct MeasureSettings {
  double seconds = 1.0;           // of samples, at most, once there are three
  int max_samples = 50;           // per row
  std::uint64_t seed = 0;         // of the inputs
  std::int64_t rotate_bytes = 0;  // inputs and outputs of all sets together; one set at least
  bool huge_pages = false;        // asked for under the tensors
};

struct BenchRow {
  std::string workload;
  std::string provider;
  std::string version;
  std::string device;  // "cpu:avx512:2"
  std::string probe_simd;
  DType dtype = DType::fp32;
  int threads = 1;
  int samples = 0;
  int runs_per_sample = 0;
  int input_sets = 0;
  double us = 0;  // median of the samples
  double us_min = 0;
  double us_max = 0;
  double spread = 0;           // (upper quartile - lower quartile) / median
  double gflops = 0;           // at the median time
  double peak_gflops = 0;      // median of the probes
  double percent_of_peak = 0;  // median over samples, each of its own probes; 0 without a probe
  double gbps = 0;             // q, k, v and out once each, 1e9 bytes a second
  double max_error = 0;        // of the rows that were compared with the reference
  double tolerance = 0;
  [[nodiscard]] bool right() const noexcept { return max_error <= tolerance; }
};

// Runs once on poisoned output and compares some rows with the reference, then samples. The plan is
// the case's; `provider` computes it. Throws what the provider throws.
BenchRow measure(const Case& c, const Plan& plan, const Provider& provider,
                 const MeasureSettings& settings);

}  // namespace ragged::tools
