#include "backends/flashinfer/padding.hpp"

#include <algorithm>

namespace ragged::fi {
namespace {

constexpr std::int64_t kBytes = 2;  // of an element: bf16 or fp16

std::int64_t whole_lines(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

Copies copies_of_heads(const Problem& problem, const Copies& shape, int kv_heads) {
  Copies copies = shape;
  copies.kv_heads = kv_heads;
  const std::int64_t head = std::int64_t{kv_heads} * copies.dim * kBytes;
  const std::int64_t q = whole_lines(copies.q_rows * problem.group() * head);
  const std::int64_t kv = whole_lines(copies.kv_rows * head);
  copies.k_at = static_cast<std::size_t>(q);
  copies.v_at = static_cast<std::size_t>(q + kv);
  copies.out_at = static_cast<std::size_t>(q + 2 * kv);
  copies.bytes = static_cast<std::size_t>(2 * q + 2 * kv);
  return copies;
}

}  // namespace

Copies copies_of(const Problem& problem, int dim, const StepTotals& totals) {
  Copies shape;
  shape.dim = dim;
  if (dim == problem.head_dim) return shape;
  if (!totals.bounded) {
    throw Error(ErrorCode::unsupported,
                "head_dim " + std::to_string(problem.head_dim) + " is padded to " +
                    std::to_string(dim) +
                    " in the workspace: offsets on a device need max_total_tokens with it");
  }
  shape.q_rows = std::max(totals.total_tokens, totals.q_extent);
  shape.kv_rows = std::max(totals.total_kv_tokens, totals.kv_extent);
  const auto one = static_cast<std::int64_t>(copies_of_heads(problem, shape, 1).bytes);
  if (one > kCopyBytes) {
    throw Error(ErrorCode::unsupported,
                "head_dim " + std::to_string(problem.head_dim) + " is padded to " +
                    std::to_string(dim) + " in the workspace, in at most " +
                    std::to_string(kCopyBytes) + " bytes; " + std::to_string(shape.q_rows) +
                    " queries and " + std::to_string(shape.kv_rows) + " keys take " +
                    std::to_string(one) + " for one key head");
  }
  const std::int64_t fitting = one == 0 ? problem.num_kv_heads : kCopyBytes / one;
  return copies_of_heads(problem, shape,
                         static_cast<int>(std::min<std::int64_t>(fitting, problem.num_kv_heads)));
}

}  // namespace ragged::fi
