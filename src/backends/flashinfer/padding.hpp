#pragma once

// Head dims between those of the kernels: q, k and v are copied into the workspace with zero
// columns behind each head, which add nothing to a score, and the result is copied back without
// them. Key heads are taken a few at a time, with their query heads, so that the copies stay small.

#include <cstddef>
#include <cstdint>

#include "backends/contract.hpp"
#include "device/attention_args.hpp"
#include "device/unit.hpp"

namespace ragged::fi {

// The copies stay within this.
inline constexpr std::int64_t kCopyBytes = std::int64_t{64} << 20;

struct Copies {
  int dim = 0;               // columns of a head in the copies
  int kv_heads = 0;          // key heads that are taken at a time
  std::int64_t q_rows = 0;   // of the copies of q and out
  std::int64_t kv_rows = 0;  // of those of k and v
  std::size_t k_at = 0;      // byte offsets in the workspace; q lies at 0
  std::size_t v_at = 0;
  std::size_t out_at = 0;
  std::size_t bytes = 0;
};

// The copies of a step for kernels of `dim` columns; none (0 bytes) where that is the head dim.
// Pure. Throws unsupported where those of one key head are larger than kCopyBytes, and for offsets
// on a device without a ceiling, whose copies have no bound.
Copies copies_of(const Problem& problem, int dim, const StepTotals& totals);

// One tensor's way into its copy, whose rows are dense.
struct PadArgs {
  device::TensorArg from;
  void* to = nullptr;
  std::int64_t rows = 0;
  int heads = 0;
};

// Loads the kernels onto the current device. A cudaError_t as int.
int prepare_padding();

// Copies heads of three tensors of 16-bit elements, in the order of `stream` (cudaStream_t). A
// cudaError_t as int.
int pad(const PadArgs (&tensors)[3], int head_dim, int dim, void* stream);

// Copies the rows of the step's units back, of `heads` heads from a dense copy. A cudaError_t as
// int.
int unpad(const void* from, const device::TensorArg& to, int heads, int head_dim, int dim,
          const device::TableHeader* header, const device::Unit* units, std::int64_t max_units,
          void* stream);

}  // namespace ragged::fi
