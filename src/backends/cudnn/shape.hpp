#pragma once

// What a cuDNN graph is made for, and where a run's arrays lie: pure functions over plain values.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/contract.hpp"
#include "device/attention_args.hpp"

namespace ragged::cudnn {

// Elements from one token, and from one head, to the next.
struct Strides {
  std::int64_t token = 0;
  std::int64_t head = 0;
  friend auto operator<=>(const Strides&, const Strides&) = default;
};

// Everything that a graph is built for. No layout: a graph serves any step of at most so many
// segments, each of at most so many rows and keys.
struct GraphKey {
  int device = 0;
  DType dtype = DType::bf16;
  int num_qo_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  float sm_scale = 0.0F;
  bool causal = false;  // to the end of the keys
  bool lse = false;
  std::int64_t segments = 0;
  std::int64_t q_length = 0;
  std::int64_t kv_length = 0;
  Strides q, k, v, out;
  Strides lse_strides;  // of nothing where no LSE is asked for
  friend auto operator<=>(const GraphKey&, const GraphKey&) = default;
};

// Why cuDNN's graphs cannot serve the problem; empty if they can. Pure.
std::string declines(const Problem& problem);
// Why they cannot read these tensors; empty if they can. Pure.
std::string declines_tensors(const device::AttentionArgs& args);
// Why no graph holds steps of these totals; empty if one does. Pure.
std::string declines_totals(const StepTotals& totals);

// One unit for each segment: cuDNN cuts them itself, in tiles that are known for figures alone.
TileTable tiles();

// A count of segments rounded up to one of eight steps between powers of two: an idle segment costs
// about 11 ns for each head, 16 heads of an H200.
std::int64_t rounded_segments(std::int64_t segments) noexcept;
// A longest length rounded up to a power of two: only what lies in a segment costs time.
std::int64_t rounded_length(std::int64_t length) noexcept;

// A run's workspace: the arrays that cuDNN reads, then its own. Byte offsets from the start, each a
// multiple of 256.
struct Memory {
  std::int64_t segments = 0;  // that the arrays hold
  // int64 [segments + 1] each, elements from a tensor's start: q, k, v, out, lse.
  std::size_t offsets_at[5] = {};
  std::size_t q_lengths_at = 0;   // int32 [segments]
  std::size_t kv_lengths_at = 0;  // int32 [segments]
  std::size_t graph_at = 0;
  std::size_t graph_bytes = 0;  // at least what cuDNN asks for
  std::size_t bytes = 0;
};
Memory memory_of(const StepTotals& totals, int sm_count) noexcept;

// The graph of a plan's problem for steps of these totals, in these tensors.
GraphKey graph_key(const Problem& problem, const StepTotals& totals, int device,
                   const device::AttentionArgs& args) noexcept;
// The same for tensors that lie packed, which are most; without LSE.
GraphKey packed_key(const Problem& problem, const StepTotals& totals, int device) noexcept;

}  // namespace ragged::cudnn
