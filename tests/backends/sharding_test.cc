// Head slices of several ranks, side by side, are the whole (edge case 35).

#include <gtest/gtest.h>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "backends/refusal.hpp"

namespace ragged::test {
namespace {

// One rank's heads of a step's tensors: views, no copies.
TensorView slice_heads(TensorView tensor, std::int64_t first, std::int64_t count) {
  tensor.data =
      static_cast<char*>(tensor.data) + first * tensor.strides[1] * size_bytes(tensor.dtype);
  tensor.shape[1] = count;
  return tensor;
}

void expect_shards_are_the_whole(const Target& target, int num_qo_heads, int num_kv_heads,
                                 int num_shards) {
  if (target.needs_dense_out) GTEST_SKIP() << "a shard's out are heads of a wider one";
  Case whole;
  whole.name = "edge35";
  whole.num_qo_heads = num_qo_heads;
  whole.num_kv_heads = num_kv_heads;
  whole.q_lengths = {60, 0, 1, 33, 2, 3, 4, 7, 9, 13, 17, 24};
  RaggedAttentionConfig config;
  config.num_qo_heads = num_qo_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = whole.head_dim;
  config.shard(num_shards);
  config.shard(num_shards);  // twice is the same as once
  ASSERT_EQ(config.num_qo_heads, num_qo_heads / num_shards);
  Case rank = whole;
  rank.num_qo_heads = config.num_qo_heads;
  rank.num_kv_heads = config.num_kv_heads;
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const Data data = make_data(whole, dtype);
    const Result want = execute(target, data);
    Step step(data, *target.memory, Poison::nan);
    const RunArguments a = step.arguments(true);
    for (int shard = 0; shard < num_shards; ++shard) {
      const std::int64_t q_head = std::int64_t{shard} * rank.num_qo_heads;
      const std::int64_t kv_head = q_head / (num_qo_heads / num_kv_heads);
      RaggedPrefillWrapper wrapper(wrapper_options(target, rank, dtype));
      wrapper.plan(step.q_side().cu_seqlens.view());
      LseView lse = a.lse;
      lse.data += q_head * lse.strides[1];
      lse.shape[1] = rank.num_qo_heads;
      wrapper.run(slice_heads(a.q, q_head, rank.num_qo_heads),
                  slice_heads(a.k, kv_head, rank.num_kv_heads),
                  slice_heads(a.v, kv_head, rank.num_kv_heads),
                  slice_heads(a.out, q_head, rank.num_qo_heads), lse);
    }
    expect_same_bits(data, step.collect(true), want, "shards side by side");
  }
}

TARGET_TEST(sharding, edge35_more_shards_than_key_heads) {
  expect_shards_are_the_whole(target, 32, 4, 8);
}

TARGET_TEST(sharding, edge35_key_heads_divided) { expect_shards_are_the_whole(target, 16, 8, 4); }

TARGET_TEST(sharding, edge35_refused_by_name) {
  const auto shard = [](int num_qo_heads, int num_kv_heads, int num_shards) {
    RaggedAttentionConfig config;
    config.num_qo_heads = num_qo_heads;
    config.num_kv_heads = num_kv_heads;
    config.head_dim = 64;
    config.shard(num_shards);
  };
  expect_refused([&] { shard(25, 25, 2); }, ErrorCode::invalid_argument,
                 {"num_qo_heads", "25", "2"});
  expect_refused([&] { shard(28, 4, 8); }, ErrorCode::invalid_argument,
                 {"num_qo_heads", "28", "8"});
}

}  // namespace
}  // namespace ragged::test
