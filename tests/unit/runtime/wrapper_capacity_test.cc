// Planning again: an unchanged layout, a refused one, and capacity mode.

#include <algorithm>
#include <numeric>

#include "support.hpp"

namespace ragged::test {
namespace {

// The bits that an eager wrapper of its own gives for these offsets.
std::vector<float> eager_bits(const Tensors& t, const Offsets& offsets, bool causal) {
  RaggedPrefillWrapper eager(small_options());
  eager.plan(offsets, causal);
  Tensor out = t.out;
  eager.run(t.q.view(), t.k.view(), t.v.view(), out.view());
  return out.values;
}

std::vector<float> bits_of(RaggedPrefillWrapper& wrapper, const Tensors& t) {
  Tensor out = t.out;
  wrapper.run(t.q.view(), t.k.view(), t.v.view(), out.view());
  return out.values;
}

TEST(Replan, AnUnchangedLayoutKeepsThePlan) {
  RaggedPrefillWrapper wrapper(small_options());
  const Offsets offsets = {0, 5, 9, 30};
  wrapper.plan(offsets, true);
  const WorkUnit* units = wrapper.current_plan().units.data();
  const std::vector<std::int32_t> narrow = {0, 5, 9, 30};
  wrapper.plan(offsets, true);
  wrapper.plan(narrow, true);
  EXPECT_EQ(wrapper.current_plan().units.data(), units);
  // Another mask is another step, the offsets being equal.
  wrapper.plan(offsets, false);
  EXPECT_FALSE(wrapper.current_plan().problem.causal);
  wrapper.plan({0, 5, 9, 31}, false);
  EXPECT_EQ(wrapper.current_plan().layouts.q.total_tokens(), 31);
}

TEST(Replan, UnchangedSpansKeepThePlan) {
  RaggedPrefillWrapper wrapper(small_options());
  const Offsets starts = {2, 8};
  Offsets lengths = {3, 4};
  wrapper.plan(SegmentSpans{starts, lengths});
  const WorkUnit* units = wrapper.current_plan().units.data();
  wrapper.plan(SegmentSpans{starts, lengths});
  EXPECT_EQ(wrapper.current_plan().units.data(), units);
  lengths[1] = 5;
  wrapper.plan(SegmentSpans{starts, lengths});
  EXPECT_EQ(wrapper.current_plan().layouts.q.length(1), 5);
}

TEST(Replan, EveryLayoutOfAPlanIsCompared) {
  RaggedCrossPrefillWrapper cross(small_options());
  cross.plan({0, 4}, {0, 7});
  cross.plan({0, 4}, {0, 8});
  EXPECT_EQ(cross.current_plan().layouts.kv.total_tokens(), 8);
  PrefixedPrefillWrapper prefixed(small_options());
  prefixed.plan_two_sources({0, 4}, {0, 7});
  prefixed.plan_two_sources({0, 4}, {0, 8});
  EXPECT_EQ(prefixed.current_plan().layouts.prefix.total_tokens(), 8);
  prefixed.plan_two_sources({0, 4}, {0, 8}, {0, 2}, false);
  EXPECT_EQ(prefixed.current_plan().layouts.kv_length(0), 10);
  prefixed.plan_two_sources({0, 4}, {0, 8});
  EXPECT_EQ(prefixed.current_plan().layouts.kv_length(0), 12);
  prefixed.plan({0, 4}, {0, 8});
  EXPECT_EQ(prefixed.current_plan().layouts.kv_length(0), 8);
}

TEST(Replan, ARefusedPlanLeavesTheOneBeforeWorking) {
  for (const bool graph : {false, true}) {
    WrapperOptions options = capacity_options(3, 30);
    options.accelerator_graph = graph;
    RaggedPrefillWrapper wrapper(options);
    const Tensors t(30);
    const Offsets offsets = {0, 5, 9, 30};
    wrapper.plan(offsets);
    const std::vector<float> bits = bits_of(wrapper, t);
    refusal(ErrorCode::out_of_range, [&] { wrapper.plan({0, 31}); });
    refusal(ErrorCode::out_of_range, [&] { wrapper.plan({0, 1, 2, 3, 4}); });
    refusal(ErrorCode::invalid_argument, [&] { wrapper.plan({0, 9, 5}); });
    EXPECT_EQ(wrapper.num_segments(), 3);
    EXPECT_EQ(bits_of(wrapper, t), bits);
    EXPECT_EQ(bits, eager_bits(t, offsets, false));
  }
}

TEST(Capacity, ReplaysEveryLayoutWithinTheCeilingsBitForBit) {
  RaggedPrefillWrapper wrapper(capacity_options(64, 192));
  Offsets uneven = {0, 100};  // 62 one-token segments between two long ones
  for (std::int64_t i = 0; i < 62; ++i) uneven.push_back(101 + i);
  uneven.push_back(192);
  for (const Offsets& offsets :
       {Offsets{0, 4, 10, 18}, Offsets{0, 5, 10, 18}, Offsets{0, 192}, even(64, 3), even(64, 1),
        Offsets{0, 0, 0, 192}, uneven, Offsets{0}, Offsets{0, 0, 0}, Offsets{0, 3}}) {
    for (const bool causal : {false, true}) {
      const Tensors t(192, -1, static_cast<unsigned>(offsets.size()));
      wrapper.plan(offsets, causal);
      EXPECT_EQ(bits_of(wrapper, t), eager_bits(t, offsets, causal));
    }
  }
}

TEST(Capacity, TheOrderOfPlansNeverMatters) {
  const Tensors t(160);
  const std::vector<Offsets> layouts = {{0, 16}, {0, 160}, even(32, 5)};
  std::vector<std::size_t> order(layouts.size());
  std::iota(order.begin(), order.end(), 0U);
  do {
    RaggedPrefillWrapper wrapper(capacity_options(32, 160));
    const std::size_t bytes = wrapper.workspace_bytes();
    for (const std::size_t i : order) {
      wrapper.plan(layouts[i]);
      EXPECT_EQ(bits_of(wrapper, t), eager_bits(t, layouts[i], false));
      EXPECT_EQ(wrapper.workspace_bytes(), bytes);
    }
    EXPECT_EQ(refusal(ErrorCode::out_of_range, [&] { wrapper.plan(even(33, 1)); }),
              "cu_seqlens: 33 segments exceed max_num_segments = 32");
    EXPECT_EQ(refusal(ErrorCode::out_of_range,
                      [&] {
                        wrapper.plan({0, 161});
                      }),
              "cu_seqlens: 161 tokens exceed max_total_tokens = 160");
    EXPECT_EQ(bits_of(wrapper, t), eager_bits(t, layouts[order.back()], false));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Capacity, TheCallersScratchServes) {
  alignas(64) static std::byte scratch[1 << 20];
  WrapperOptions options = capacity_options(8, 128);
  options.workspace = {.data = scratch, .bytes = sizeof(scratch)};
  RaggedPrefillWrapper wrapper(options);
  ASSERT_LE(wrapper.workspace_bytes(), sizeof(scratch));
  const Tensors t(128);
  wrapper.plan(even(8, 16));
  EXPECT_EQ(bits_of(wrapper, t), eager_bits(t, even(8, 16), false));
}

TEST(Capacity, CeilingsBeyondAnyStorageAreRefused) {
  const std::int64_t huge = std::int64_t{1} << 60;
  refusal(ErrorCode::out_of_memory,
          [&] { const RaggedPrefillWrapper wrapper(capacity_options(huge, 64)); });
}

}  // namespace
}  // namespace ragged::test
