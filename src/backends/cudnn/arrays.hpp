#pragma once

// What cuDNN reads beside the tensors, made on the device from a step's table in the order of the
// stream; and the rows that see no key, which are kept from cuDNN. Plain C++, defined by CUDA code.

#include <cstdint>

#include "device/attention_args.hpp"

namespace ragged::cudnn {

struct Arrays {
  std::int64_t segments = 0;  // entries of the lengths; the offsets have one more
  std::int64_t* q_offsets = nullptr;
  std::int64_t* k_offsets = nullptr;
  std::int64_t* v_offsets = nullptr;
  std::int64_t* out_offsets = nullptr;
  std::int64_t* lse_offsets = nullptr;
  std::int32_t* q_lengths = nullptr;
  std::int32_t* kv_lengths = nullptr;
};

// Loads the kernel onto the current device, so that a launch may be captured. A cudaError_t as int.
int prepare_arrays();

// Fills the arrays from args.table: an entry for each of its units, in its order, then empty ones.
// Rows without a visible key get 0 and an LSE of -inf here, and no place in the arrays. A unit that
// does not lie within the tensors has none either. A cudaError_t as int.
int launch_arrays(const Arrays& arrays, const device::AttentionArgs& args, void* stream);

}  // namespace ragged::cudnn
