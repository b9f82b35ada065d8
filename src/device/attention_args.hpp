#pragma once

// What a kernel is launched with, by value: shapes and strides beside the pointers.

#include <cstdint>

#include "device/unit.hpp"
#include "visible.hpp"

namespace ragged::device {

// [tokens, heads, head_dim] of bf16, fp16 or fp32; the last stride is 1.
struct TensorArg {
  void* data = nullptr;
  std::int64_t token_stride = 0;  // elements
  std::int64_t head_stride = 0;   // elements
  std::int32_t tokens = 0;        // rows of the tensor: no unit may reach beyond them
};

// fp32 log-sum-exp [tokens, num_qo_heads]; null: not asked for.
struct LseArg {
  float* data = nullptr;
  std::int64_t token_stride = 0;  // elements
  std::int64_t head_stride = 0;
};

struct AttentionArgs {
  TensorArg q, k, v, out;
  TensorArg prefix_k, prefix_v;  // two sources only
  LseArg lse;
  Mask mask;
  std::int32_t head_dim = 0;
  std::int32_t num_qo_heads = 0;
  std::int32_t num_kv_heads = 0;
  // Query heads of one key head that share a tile: its row r is head r % heads of token r / heads.
  // An item is (unit, head group): id = unit * head_groups + group, with query heads
  // [group * heads, (group + 1) * heads).
  std::int32_t heads = 1;
  std::int32_t head_groups = 1;  // num_qo_heads / heads
  float sm_scale = 0.0F;
  float scale_log2 = 0.0F;  // sm_scale * log2(e): weights are powers of two
  const Unit* units = nullptr;
  TableHeader* table = nullptr;
  void* workspace = nullptr;  // partial results of split keys
};

}  // namespace ragged::device
