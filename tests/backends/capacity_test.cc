// Capacity mode: any layout within the ceilings, in any order, to the bits of eager; outside them
// refused, and what was planned before still works.

#include <gtest/gtest.h>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "backends/refusal.hpp"

namespace ragged::test {
namespace {

Case layout(AttentionKind kind, std::vector<std::int64_t> q, std::vector<std::int64_t> kv = {}) {
  Case c;
  c.name = "capacity";
  c.kind = kind;
  c.q_lengths = std::move(q);
  c.kv_lengths = std::move(kv);
  return c;
}

// Plans and runs each case in turn on one wrapper, against eager on a fresh one.
void expect_replays(const Target& target, const std::vector<Case>& cases, DType dtype,
                    const Ceilings& ceilings) {
  WrapperOptions options = wrapper_options(target, cases.front(), dtype);
  options.accelerator_graph = true;
  options.max_num_segments = ceilings.max_num_segments;
  options.max_total_tokens = ceilings.max_total_tokens;
  if (ceilings.max_total_kv_tokens > 0) options.max_total_kv_tokens = ceilings.max_total_kv_tokens;
  AnyWrapper wrapper(cases.front(), options);
  const std::size_t scratch = wrapper.base().workspace_bytes();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("layout " + std::to_string(i));
    const Data data = make_data(cases[i], dtype);
    Step step(data, *target.memory, i % 2 == 0 ? Poison::nan : Poison::inf);
    wrapper.plan(step);
    EXPECT_EQ(wrapper.base().workspace_bytes(), scratch) << "the ceilings alone decide";
    wrapper.run(step);
    const Result result = step.collect(true);
    How eager;
    eager.path = Path::wrapper;
    expect_same_bits(data, result, execute(target, data, eager), "against eager");
    expect_right(data, result);
  }
}

TARGET_TEST(capacity, edge12_cross_decode_like) {
  std::vector<Case> cases = {
      layout(AttentionKind::cross, std::vector<std::int64_t>(8, 1),
             {1500, 1, 700, 1499, 0, 64, 1500, 3}),
      layout(AttentionKind::cross, std::vector<std::int64_t>(8, 1), {1, 2, 3, 4, 5, 6, 7, 8}),
      layout(AttentionKind::cross, {1, 1, 1}, {0, 1500, 0}),
      layout(AttentionKind::cross, {8}, {12000}),
      layout(AttentionKind::cross, {0, 3, 0, 5}, {10, 0, 7, 77}),
      layout(AttentionKind::cross, {}, {}),
      layout(AttentionKind::cross, std::vector<std::int64_t>(8, 1),
             {1500, 1, 700, 1499, 0, 64, 1500, 3}),
  };
  for (Case& c : cases) {
    c.num_qo_heads = 20;
    c.num_kv_heads = 20;
    if (target.slow || target.narrowed) c.num_qo_heads = c.num_kv_heads = 2;
  }
  expect_replays(target, cases, DType::bf16, {8, 8, 12000});
}

TARGET_TEST(capacity, edge24_layouts_within_the_ceilings) {
  expect_replays(target,
                 {layout(AttentionKind::self, {4, 6, 8}), layout(AttentionKind::self, {5, 5, 8}),
                  layout(AttentionKind::self, {18}), layout(AttentionKind::self, {0, 0, 0}),
                  layout(AttentionKind::self, {}), layout(AttentionKind::self, {1, 1})},
                 DType::bf16, {3, 18, 0});

  const std::int64_t tokens = target.slow || target.narrowed ? 1024 : 16384;
  std::vector<std::int64_t> mixed = {tokens / 2};
  mixed.insert(mixed.end(), 62, 1);
  mixed.push_back(tokens - tokens / 2 - 62);
  std::vector<Case> cases = {
      layout(AttentionKind::self, {tokens}),
      layout(AttentionKind::self, std::vector<std::int64_t>(64, tokens / 64)),
      layout(AttentionKind::self, std::vector<std::int64_t>(64, 1)),
      layout(AttentionKind::self, {0, 0, tokens}),
      layout(AttentionKind::self, mixed),
  };
  for (Case& c : cases) {
    c.num_qo_heads = c.num_kv_heads = 1;
    c.head_dim = 32;
    c.sampled_rows = 60;
  }
  expect_replays(target, cases, DType::bf16, {64, tokens, 0});
}

TARGET_TEST(capacity, edge25_any_order_and_refusals_leave_the_plan) {
  const std::int64_t tokens = target.slow || target.narrowed ? 1024 : 8192;
  std::vector<Case> cases = {
      layout(AttentionKind::self, {16}),
      layout(AttentionKind::self, {tokens}),
      layout(AttentionKind::self, std::vector<std::int64_t>(32, tokens / 32)),
      layout(AttentionKind::self, {16}),
  };
  for (Case& c : cases) {
    c.num_qo_heads = c.num_kv_heads = 1;
    c.head_dim = 32;
    c.sampled_rows = 60;
  }
  expect_replays(target, cases, DType::fp32, {32, tokens, 0});

  const Data data = make_data(cases[2], DType::fp32);
  Step step(data, *target.memory, Poison::nan);
  WrapperOptions options = wrapper_options(target, cases[2], DType::fp32);
  options.accelerator_graph = true;
  options.max_num_segments = 32;
  options.max_total_tokens = tokens;
  RaggedPrefillWrapper wrapper(options);
  wrapper.plan(step.q_side().cu_seqlens.view());
  const std::vector<std::int64_t> too_many(34, 0);
  expect_refused([&] { wrapper.plan(too_many); }, ErrorCode::out_of_range, {"33", "32"});
  expect_refused(
      [&] {
        wrapper.plan({0, tokens + 1});
      },
      ErrorCode::out_of_range, {std::to_string(tokens + 1), std::to_string(tokens)});
  expect_refused([&] { wrapper.plan({0, 4, 2}); }, ErrorCode::invalid_argument, {"cu_seqlens[2]"});
  EXPECT_EQ(wrapper.num_segments(), 32);
  const RunArguments a = step.arguments(true);
  wrapper.run(a.q, a.k, a.v, a.out, a.lse);
  expect_right(data, step.collect(true));
}

TARGET_TEST(capacity, ceilings_on_keys_and_prefixes) {
  WrapperOptions options = wrapper_options(target, layout(AttentionKind::cross, {}), DType::bf16);
  options.accelerator_graph = true;
  options.max_num_segments = 4;
  options.max_total_tokens = 10;
  options.max_total_kv_tokens = 50;
  RaggedCrossPrefillWrapper cross(options);
  cross.plan({0, 10}, {0, 50});
  expect_refused([&] { cross.plan({0, 10}, {0, 51}); }, ErrorCode::out_of_range, {"51", "50"});
  expect_refused([&] { cross.plan({0, 11}, {0, 50}); }, ErrorCode::out_of_range, {"11", "10"});
  PrefixedPrefillWrapper prefixed(options);
  prefixed.plan_two_sources({0, 10}, {0, 40});
  expect_refused(
      [&] {
        prefixed.plan_two_sources({0, 10}, {0, 41});
      },
      ErrorCode::out_of_range, {"51", "50"});
  expect_refused([&] { prefixed.plan({0, 10}, {0, 51}); }, ErrorCode::out_of_range, {"51", "50"});
}

TARGET_TEST(capacity, edge29_workspace_is_small_and_exact) {
  struct Shape {
    int num_qo_heads;
    int num_kv_heads;
    int head_dim;
    std::int64_t segments;
    std::int64_t length;
  };
  for (const Shape& shape : {Shape{32, 4, 256, 128, 577}, Shape{32, 2, 128, 512, 1}}) {
    Case c =
        layout(AttentionKind::self,
               std::vector<std::int64_t>(static_cast<std::size_t>(shape.segments), shape.length));
    c.num_qo_heads = shape.num_qo_heads;
    c.num_kv_heads = shape.num_kv_heads;
    c.head_dim = shape.head_dim;
    for (const bool graph : {false, true}) {
      WrapperOptions options = wrapper_options(target, c, DType::bf16);
      options.accelerator_graph = graph;
      options.max_num_segments = shape.segments;
      options.max_total_tokens = shape.segments * shape.length;
      RaggedPrefillWrapper wrapper(options);
      const std::size_t before = wrapper.workspace_bytes();
      wrapper.plan(offsets_from_lengths(c.q_lengths));
      EXPECT_LE(wrapper.workspace_bytes(), std::size_t{64} << 20);
      EXPECT_EQ(wrapper.workspace_bytes(), wrapper.current_plan().workspace_bytes);
      if (graph) {
        EXPECT_EQ(wrapper.workspace_bytes(), before);
      }
    }
  }
}

TARGET_TEST(capacity, workspace_of_the_caller) {
  Case c = layout(AttentionKind::self, {70, 33});
  const Data data = make_data(c, DType::bf16);
  Step step(data, *target.memory, Poison::nan);
  WrapperOptions options = wrapper_options(target, c, DType::bf16);
  options.accelerator_graph = true;
  options.max_num_segments = 2;
  options.max_total_tokens = 103;
  const std::size_t bytes = AnyWrapper(c, options).base().workspace_bytes();
  const Scratch scratch(*target.memory, bytes);
  options.workspace = scratch.workspace();
  AnyWrapper wrapper(c, options);
  wrapper.plan(step);
  wrapper.run(step);
  expect_right(data, step.collect(true));
  EXPECT_FALSE(scratch.overrun());
  if (bytes == 0) return;  // nothing that could be too small
  options.workspace.bytes = bytes - 1;
  expect_refused(
      [&] {
        AnyWrapper small(c, options);
        small.plan(step);
        small.run(step);
      },
      ErrorCode::invalid_argument, {"workspace", std::to_string(bytes - 1), std::to_string(bytes)});
}

}  // namespace
}  // namespace ragged::test
