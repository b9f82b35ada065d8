#pragma once

// The machine that a report was measured on, read from the machine itself.

#include <cstdint>
#include <string>
#include <vector>

namespace ragged::bench {

struct Cache {
  int level = 0;
  std::string type;  // "Data", "Unified"
  std::int64_t bytes = 0;
};

// What could not be read stays empty or 0; virtual machines hide much.
struct Machine {
  std::string vendor;
  std::string model_name;  // often generic: family and model say more
  std::string family;
  std::string model;
  std::string stepping;
  std::string flags;  // as the kernel lists them
  std::string governor;
  std::string kernel;
  std::string compiler;
  int cores = 0;  // that this process may use
  std::int64_t memory_bytes = 0;
  std::vector<Cache> caches;  // of core 0, without instruction caches
  std::string simd;           // best_fp32_simd()
  bool hypervisor = false;    // a neighbour may share the cores

  static Machine read();
  // These fields as one JSON object; what is empty is null.
  [[nodiscard]] std::string to_json() const;
  // The same with the probes of this moment beside the fields: "fma_peak_gflops": {SIMD target:
  // {threads: GFLOP/s}}, "kernel_loop_gflops": likewise, "read_gbps": {bytes: {threads: GB/s}},
  // for 1 thread and all cores. Takes one to three seconds.
  [[nodiscard]] std::string to_json_with_probes() const;
};

// Machine::read().to_json_with_probes().
std::string machine_json();

}  // namespace ragged::bench
