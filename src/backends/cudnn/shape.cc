#include "backends/cudnn/shape.hpp"

#include <algorithm>
#include <bit>

namespace ragged::cudnn {
namespace {

constexpr std::int64_t kMostLength = std::int64_t{1} << 30;  // rows or keys of a segment
constexpr std::int64_t kLeastLength = 1024;
constexpr int kSteps = 8;              // between two powers of two
constexpr std::int64_t kElements = 8;  // of 2 bytes, in 16 bytes

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// cuDNN 9.14 asks for 256 bytes of each segment and up to 768 more; 9.19 for 128 bytes of each SM,
// and 256 more. With room for others.
constexpr std::size_t workspace_bound(std::int64_t segments, int sm_count) {
  return aligned(384 * static_cast<std::size_t>(segments) +
                 1024 * static_cast<std::size_t>(sm_count) + 4096);
}

Strides strides_of(const device::TensorArg& tensor) noexcept {
  return {tensor.token_stride, tensor.head_stride};
}

std::string aligned_tensor(const char* name, const device::TensorArg& tensor, bool one_head) {
  if (tensor.data == nullptr || tensor.tokens == 0) return {};
  const auto refuse = [&](const std::string& what) {
    return std::string(name) + "'s " + what + "; cuDNN takes multiples of 16 bytes above 0";
  };
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % 16 != 0) return refuse("base lies at " + std::to_string(address % 16) + " mod 16");
  if (tensor.token_stride % kElements != 0 || tensor.token_stride <= 0) {
    return refuse("token stride is " + std::to_string(tensor.token_stride) + " elements");
  }
  if (!one_head && (tensor.head_stride % kElements != 0 || tensor.head_stride <= 0)) {
    return refuse("head stride is " + std::to_string(tensor.head_stride) + " elements");
  }
  return {};
}

GraphKey common_key(const Problem& problem, const StepTotals& totals, int device) noexcept {
  GraphKey key;
  key.device = device;
  key.dtype = problem.dtype;
  key.num_qo_heads = problem.num_qo_heads;
  key.num_kv_heads = problem.num_kv_heads;
  key.head_dim = problem.head_dim;
  key.sm_scale = static_cast<float>(problem.sm_scale);
  key.causal = problem.causal;
  key.segments = rounded_segments(totals.num_segments);
  key.q_length = rounded_length(totals.max_q_length);
  key.kv_length = rounded_length(totals.max_kv_length);
  return key;
}

}  // namespace

std::string declines(const Problem& problem) {
  if (problem.kind == AttentionKind::block_causal) {
    return "kind: serves self, cross and prefixed attention; got block_causal, a mask that cuDNN "
           "does not have";
  }
  if (problem.two_sources) {
    return "two_sources: serves keys in one tensor; got prefix and fresh keys apart";
  }
  if (problem.dtype != DType::bf16 && problem.dtype != DType::fp16) {
    return "dtype must be bf16 or fp16; got " + std::string(to_string(problem.dtype));
  }
  if (problem.head_dim % 8 != 0) {
    return "head_dim must be a multiple of 8; got " + std::to_string(problem.head_dim);
  }
  return {};
}

std::string declines_tensors(const device::AttentionArgs& args) {
  const bool one_query_head = args.num_qo_heads == 1;
  const bool one_key_head = args.num_kv_heads == 1;
  for (std::string reason :
       {aligned_tensor("q", args.q, one_query_head), aligned_tensor("k", args.k, one_key_head),
        aligned_tensor("v", args.v, one_key_head),
        aligned_tensor("out", args.out, one_query_head)}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

std::string declines_totals(const StepTotals& totals) {
  const std::int64_t longest = std::max(totals.max_q_length, totals.max_kv_length);
  if (!totals.bounded) {
    return "offsets on a device: a graph holds segments of a longest length; give max_total_tokens "
           "(and max_total_kv_tokens) to bound it";
  }
  if (longest > kMostLength) {
    return "segments may have " + std::to_string(longest) + " rows or keys; a graph holds " +
           std::to_string(kMostLength);
  }
  return {};
}

TileTable tiles() {
  TileTable table;
  table.num_rules = 1;
  Tile& tile = table.rules[0].tile;
  tile.q_rows = 128;
  tile.kv_rows = 128;
  tile.unit_rows = static_cast<std::int32_t>(kMostLength);
  return table;
}

std::int64_t rounded_segments(std::int64_t segments) noexcept {
  if (segments <= 2 * kSteps) return std::max<std::int64_t>(segments, 1);
  const auto whole =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(segments)));
  const std::int64_t step = whole / kSteps;
  return (segments + step - 1) / step * step;
}

std::int64_t rounded_length(std::int64_t length) noexcept {
  const std::int64_t least = std::max(length, kLeastLength);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
}

Memory memory_of(const StepTotals& totals, int sm_count) noexcept {
  Memory memory;
  memory.segments = rounded_segments(totals.num_segments);
  const auto segments = static_cast<std::size_t>(memory.segments);
  std::size_t at = 0;
  const auto place = [&at](std::size_t& where, std::size_t bytes) {
    where = at;
    at += aligned(bytes);
  };
  for (std::size_t& offsets : memory.offsets_at)
    place(offsets, (segments + 1) * sizeof(std::int64_t));
  place(memory.q_lengths_at, segments * sizeof(std::int32_t));
  place(memory.kv_lengths_at, segments * sizeof(std::int32_t));
  memory.graph_bytes = workspace_bound(memory.segments, sm_count);
  place(memory.graph_at, memory.graph_bytes);
  memory.bytes = at;
  return memory;
}

GraphKey graph_key(const Problem& problem, const StepTotals& totals, int device,
                   const device::AttentionArgs& args) noexcept {
  GraphKey key = common_key(problem, totals, device);
  key.lse = args.lse.data != nullptr;
  key.q = strides_of(args.q);
  key.k = strides_of(args.k);
  key.v = strides_of(args.v);
  key.out = strides_of(args.out);
  if (key.lse) key.lse_strides = {args.lse.token_stride, args.lse.head_stride};
  // The stride of a single head is nobody's, and need not be a multiple of anything.
  if (problem.num_qo_heads == 1) key.q.head = key.out.head = problem.head_dim;
  if (problem.num_kv_heads == 1) key.k.head = key.v.head = problem.head_dim;
  return key;
}

GraphKey packed_key(const Problem& problem, const StepTotals& totals, int device) noexcept {
  GraphKey key = common_key(problem, totals, device);
  const std::int64_t dim = problem.head_dim;
  key.q = key.out = {problem.num_qo_heads * dim, dim};
  key.k = key.v = {problem.num_kv_heads * dim, dim};
  return key;
}

}  // namespace ragged::cudnn
