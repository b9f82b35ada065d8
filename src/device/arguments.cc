#include "device/arguments.hpp"

#include <algorithm>
#include <numbers>

#include "device/table.hpp"

namespace ragged::device {
namespace {

TensorArg tensor_arg(const TensorView& view) noexcept {
  TensorArg arg;
  arg.data = view.data;
  arg.token_stride = view.strides[0];
  arg.head_stride = view.strides[1];
  // No offset of a table lies beyond; rows of a tensor may.
  arg.tokens = static_cast<std::int32_t>(std::min(view.shape[0], kMostDeviceRows));
  return arg;
}

}  // namespace

AttentionArgs attention_args(const Plan& plan, const RunArguments& arguments) {
  const Problem& problem = plan.problem;
  AttentionArgs args;
  args.q = tensor_arg(arguments.q);
  args.k = tensor_arg(arguments.k);
  args.v = tensor_arg(arguments.v);
  args.out = tensor_arg(arguments.out);
  if (problem.two_sources) {
    args.prefix_k = tensor_arg(arguments.prefix_k);
    args.prefix_v = tensor_arg(arguments.prefix_v);
  }
  args.lse.data = arguments.lse.data;
  args.lse.token_stride = arguments.lse.strides[0];
  args.lse.head_stride = arguments.lse.strides[1];
  args.mask.causal = problem.causal;
  args.mask.block_size = problem.kind == AttentionKind::block_causal ? problem.block_size : 0;
  args.head_dim = problem.head_dim;
  args.num_qo_heads = problem.num_qo_heads;
  args.num_kv_heads = problem.num_kv_heads;
  args.heads = plan.tiles.rules[0].tile.heads;
  args.head_groups = static_cast<std::int32_t>(plan.items_per_unit);
  args.sm_scale = static_cast<float>(problem.sm_scale);
  args.scale_log2 = static_cast<float>(problem.sm_scale * std::numbers::log2e);
  auto* const table = static_cast<std::byte*>(arguments.table.data);
  args.table = reinterpret_cast<TableHeader*>(table);
  args.units = reinterpret_cast<const Unit*>(table + units_at());
  args.workspace = arguments.workspace.data;
  return args;
}

}  // namespace ragged::device
