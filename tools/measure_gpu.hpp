#pragma once

// Times the library on one GPU: graphs of runs over rotated inputs, in short bursts and sustained,
// and what planning and starting a run cost the host.

#include <optional>
#include <string>

#include "bench/gpu.hpp"
#include "case.hpp"
#include "workloads.hpp"

namespace ragged::tools {

struct GpuSettings {
  double idle_seconds = 0.3;  // before each burst
  int bursts = 2;
  double sustained_seconds = 0.5;           // 0: none
  std::int64_t rotate_bytes = 150'000'000;  // inputs and outputs of all sets: past every L2
  double least_graph_us =
      400.0;  // a graph holds as many runs as take so long at the floor, 4 at least
  std::uint64_t seed = 0;
};

struct GpuRow {
  std::string workload;
  std::string provider;  // "ragged/sm90"
  std::string device;    // "cuda:0"
  DType dtype = DType::bf16;
  double us = 0;  // median over replays in bursts, of one run
  double us_min = 0;
  double us_max = 0;
  double spread = 0;         // (upper quartile - lower quartile) / median
  double sustained_us = 0;   // median, without a pause; 0: not measured
  int sustained_sm_mhz = 0;  // the clock at its end
  double floor_us = 0;       // what no kernel passes: floor_us()
  std::optional<H200Goal> goal;
  double plan_us = 0;         // host, of a layout unlike the last
  double replan_us = 0;       // host, of a layout equal to the last
  double plan_device_us = 0;  // on the device, of a layout unlike the last
  double host_us = 0;         // host, of starting a run
  double tflops = 0;          // at us
  double gbps = 0;            // at us: q, k, v and out once each, 1e9 bytes a second
  int input_sets = 0;
  int runs_per_graph = 0;
  std::size_t workspace_bytes = 0;
  double relative_error = 0;  // worst sampled row: |got - want| / |want|
  double tolerance = 0;
  [[nodiscard]] bool right() const noexcept { return relative_error <= tolerance; }
};

// The larger of useful arithmetic at 783 TFLOP/s and q, k, v and out once each at 4.21 TB/s: a bf16
// matrix product of 8192 x 8192 x 8192, and a device copy, as they were measured on an H200.
double floor_us(double flops, double bytes) noexcept;

// What a row may be off by: a few roundings of the type.
double row_tolerance(DType dtype) noexcept;

// Throws ragged::Error(unsupported) where no backend serves the case on the GPU, or `backend` does
// not; out_of_range where it is more than `most_gflop` of work (0: as much as there is).
GpuRow measure_gpu(const Case& c, int index, RaggedAttnBackend backend, const GpuSettings& settings,
                   double most_gflop = 0);

}  // namespace ragged::tools
