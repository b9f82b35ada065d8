#pragma once

// The kernel as compiled for each instruction set, from one source.

#include <span>
#include <string_view>

#include "job.hpp"

namespace ragged::cpu {

struct Target {
  std::string_view simd;  // as DeviceFacts::simd
  int lanes = 0;          // floats of one vector
  // Computes items of the job until none is left. Called once for each worker.
  void (*run)(Job& job, int worker) = nullptr;
};

// Those of this build that this machine can run, widest first; at least one.
std::span<const Target> runnable_targets();

// The widest of them that is no wider than `simd`; the narrowest where none is.
const Target& target_for(std::string_view simd);

}  // namespace ragged::cpu
