// What planning and running do with memory.

#include <new>

#include "counting_new.hpp"
#include "support.hpp"

namespace ragged::test {
namespace {

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    if (!kCountsAllocations) GTEST_SKIP() << "a thread sanitizer brings its own operator new";
  }
};

// Plain calls: an optimizer may drop a new-expression whose memory nobody reads.
TEST_F(Memory, EveryAllocationIsCounted) {
  EXPECT_EQ(allocations_of([] {
              ::operator delete(::operator new(8));
              ::operator delete[](::operator new[](1000, std::align_val_t{64}),
                                  std::align_val_t{64});
            }),
            2U);
}

TEST_F(Memory, AnUnchangedLayoutAllocatesNothing) {
  RaggedPrefillWrapper wrapper(small_options());
  const Offsets offsets = {0, 5, 9, 30};
  const std::vector<std::int32_t> narrow = {0, 5, 9, 30};
  wrapper.plan(offsets, true);
  EXPECT_EQ(allocations_of([&] {
              wrapper.plan(offsets, true);
              wrapper.plan(narrow, true);
            }),
            0U);
}

TEST_F(Memory, ACapacityPlanAllocatesNothingAndKeepsItsAddresses) {
  RaggedPrefillWrapper wrapper(capacity_options(64, 4096));
  const Offsets one = {0, 16};
  const Offsets longest = {0, 4096};
  const Offsets most = even(64, 64);
  const Offsets starts = {2, 100};
  const Offsets lengths = {50, 7};
  for (const bool causal : {false, true}) {
    // Not even the first plan of a form allocates.
    EXPECT_EQ(allocations_of([&] { wrapper.plan(one, causal); }), 0U);
    const std::int64_t* begins = wrapper.current_plan().layouts.q.begins();
    const WorkUnit* units = wrapper.current_plan().units.data();
    EXPECT_EQ(allocations_of([&] {
                wrapper.plan(longest, causal);
                wrapper.plan(most, causal);
                wrapper.plan(SegmentSpans{starts, lengths}, causal);
                wrapper.plan(one, causal);
                wrapper.plan(most, !causal);
                wrapper.plan(most, causal);
              }),
              0U);
    EXPECT_EQ(wrapper.current_plan().layouts.q.begins(), begins);
    EXPECT_EQ(wrapper.current_plan().units.data(), units);
  }
}

TEST_F(Memory, TwoLayoutsAndTwoSourcesAllocateNothing) {
  WrapperOptions options = capacity_options(8, 128);
  options.max_total_kv_tokens = 512;
  RaggedCrossPrefillWrapper cross(options);
  PrefixedPrefillWrapper prefixed(options);
  const Offsets q = even(8, 16);
  const Offsets kv = even(8, 64);
  const Offsets prefix = even(8, 48);
  const Offsets short_q = {0, 3};
  const Offsets short_kv = {0, 300};
  EXPECT_EQ(allocations_of([&] {
              cross.plan(q, kv);
              cross.plan(short_q, short_kv);
              prefixed.plan(q, kv, true);
              prefixed.plan(short_q, short_kv, true);
              prefixed.plan_two_sources(q, prefix);
              prefixed.plan_two_sources(short_q, short_kv);
              prefixed.plan_two_sources(q, prefix, q, true);
            }),
            0U);
}

TEST_F(Memory, ARunAllocatesNothing) {
  RaggedPrefillWrapper wrapper(capacity_options(8, 128));
  const Tensors t(128);
  wrapper.plan(even(8, 16));
  wrapper.run(t.q.view(), t.k.view(), t.v.view(), t.out.view());
  EXPECT_EQ(allocations_of([&] { wrapper.run(t.q.view(), t.k.view(), t.v.view(), t.out.view()); }),
            0U);
}

TEST_F(Memory, EagerGrowsOnceAndThenAllocatesNothing) {
  RaggedPrefillWrapper wrapper(small_options());
  const Offsets large = even(64, 16);
  const Offsets small = even(5, 3);
  wrapper.plan(large);
  wrapper.plan(small);
  wrapper.plan(large);
  EXPECT_EQ(allocations_of([&] {
              wrapper.plan(small);
              wrapper.plan(large);
            }),
            0U);
}

}  // namespace
}  // namespace ragged::test
