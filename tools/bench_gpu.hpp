#pragma once

// `ragged bench --device cuda`: rows of a GPU, as a table for people and as JSON for plots.

#include <string>
#include <vector>

#include "case.hpp"

namespace ragged::tools {

struct GpuBench {
  std::vector<Case> cases;
  std::vector<RaggedAttnBackend> backends = {RaggedAttnBackend::AUTO};
  Device device = {DeviceKind::cuda, 0};
  std::optional<double> sustained_seconds;  // the usual half second unless said; 0: none
  double most_gflop = 0;                    // leaves out workloads of more work; 0: none
  std::string json;                         // empty: none is written
};

// Times every case on every backend that serves it. 1 where one of them is wrong or nothing was
// timed, else 0. Throws ragged::Error where the GPU is not there, with the reason.
int bench_on_gpu(const GpuBench& bench);

}  // namespace ragged::tools
