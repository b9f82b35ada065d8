#include "backends/flashinfer/choice.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/flashinfer/built.hpp"
#include "backends/flashinfer/shapes.hpp"

namespace ragged::fi {
namespace {

constexpr std::int64_t kMostStride = std::numeric_limits<std::int32_t>::max();

// "bf16:64, fp16:64".
std::string built_names() {
  std::string names;
  for (const Instance& instance : kInstances) {
    names += (names.empty() ? "" : ", ") + std::string(to_string(instance.dtype)) + ":" +
             std::to_string(instance.dim);
  }
  return names;
}

std::string declines_strides(const char* name, const device::TensorArg& tensor, int heads) {
  if (tensor.data == nullptr || tensor.tokens == 0) return {};
  constexpr std::int64_t kElements = 8;  // of 2 bytes, in 16 bytes
  const auto refuse = [&](const std::string& what) {
    return std::string(name) + "'s " + what + "; flashinfer takes multiples of 16 bytes, below " +
           "2^31 elements";
  };
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % 16 != 0) return refuse("base lies at " + std::to_string(address % 16) + " mod 16");
  const auto bad = [](std::int64_t stride, std::int64_t times) {
    return stride % kElements != 0 || stride < 0 || stride * times > kMostStride;
  };
  if (tensor.tokens > 1 && bad(tensor.token_stride, 1)) {
    return refuse("token stride is " + std::to_string(tensor.token_stride) + " elements");
  }
  if (heads > 1 && bad(tensor.head_stride, heads)) {
    return refuse("head stride is " + std::to_string(tensor.head_stride) + " elements, of " +
                  std::to_string(heads) + " heads");
  }
  return {};
}

std::string declines_gaps(const device::AttentionArgs& args) {
  const std::int64_t token = std::int64_t{args.num_qo_heads} * args.head_dim;
  const bool heads_meet = args.num_qo_heads == 1 || args.out.head_stride == args.head_dim;
  const bool tokens_meet = args.out.tokens <= 1 || args.out.token_stride == token;
  if (heads_meet && tokens_meet) return {};
  return "out must be dense, with strides " + std::to_string(token) + " and " +
         std::to_string(args.head_dim) + "; got " + std::to_string(args.out.token_stride) +
         " and " + std::to_string(args.out.head_stride);
}

}  // namespace

int kernel_dim(const Problem& problem) {
  int smallest = 0;
  for (const Instance& instance : kInstances) {
    if (instance.dtype != problem.dtype || instance.dim < problem.head_dim) continue;
    smallest = smallest == 0 ? instance.dim : std::min(smallest, instance.dim);
  }
  return smallest;
}

std::string declines(const Problem& problem) {
  if (problem.dtype == DType::fp32) return "dtype must be bf16 or fp16; got fp32";
  if (problem.kind == AttentionKind::block_causal) {
    return "kind must be self, cross or prefixed; got block_causal, a mask that flashinfer's "
           "ragged kernels lack";
  }
  if (problem.two_sources) {
    return "keys must lie in one tensor; got two sources, a prefix and fresh keys";
  }
  const int dim = kernel_dim(problem);
  if (dim == 0) {
    return "head_dim must be at most that of a kernel of this build, which has " + built_names() +
           "; got " + std::string(to_string(problem.dtype)) + ":" +
           std::to_string(problem.head_dim) + " (RAGGED_FLASHINFER_INSTANCES builds more)";
  }
  const int rows = most_rows(dim);
  if (problem.group() > rows) {
    return "num_qo_heads must be at most " + std::to_string(rows) + " for each key head; got " +
           std::to_string(problem.group());
  }
  return {};
}

std::string declines_tensors(const device::AttentionArgs& args) {
  for (std::string reason : {declines_strides("q", args.q, args.num_qo_heads),
                             declines_strides("k", args.k, args.num_kv_heads),
                             declines_strides("v", args.v, args.num_kv_heads),
                             declines_strides("out", args.out, args.num_qo_heads)}) {
    if (!reason.empty()) return reason;
  }
  return declines_gaps(args);
}

TileTable tiles(const Problem& problem) {
  const int dim = kernel_dim(problem);
  const int group = problem.group();
  TileTable table;
  for (const int rows : {16, 64, 128}) {
    if (rows < group || rows > most_rows(dim)) continue;
    TileRule& rule = table.rules[table.num_rules++];
    rule.tile.heads = group;
    rule.tile.q_rows = rows / group;
    rule.tile.unit_rows = rule.tile.q_rows;
    rule.tile.kv_rows = step_keys(dim, rows);
    rule.tile.variant = rows;
    if (rows < most_rows(dim)) rule.max_q_length = rule.tile.q_rows;
  }
  return table;
}

}  // namespace ragged::fi
