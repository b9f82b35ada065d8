// Every wrapper's forms of plan and run against attention written down plainly.

#include <algorithm>
#include <thread>
#include <utility>

#include "support.hpp"

namespace ragged::test {
namespace {

template <typename Wrapper>
void run(Wrapper& wrapper, const Tensors& t, const LseView& lse = {}) {
  wrapper.run(t.q.view(), t.k.view(), t.v.view(), t.out.view(), lse);
}

Tensor expected(const Tensors& t, const Offsets& q, const Offsets& kv, const Visible& visible) {
  Tensor out = t.out;
  attend_plainly(t.q, t.k, t.v, out, q, kv, visible);
  return out;
}

TEST(SelfWrapper, ComputesEachSegmentAlone) {
  RaggedPrefillWrapper wrapper(small_options());
  const Offsets offsets = {0, 5, 5, 17, 18};
  for (const bool causal : {false, true}) {
    const Tensors t(20);  // two rows beyond the plan stay as they are
    const Tensor truth = expected(t, offsets, offsets, causal ? sees_causal : sees_all);
    wrapper.plan(offsets, causal);
    EXPECT_EQ(wrapper.num_segments(), 4);
    run(wrapper, t);
    expect_close(t.out, truth);
  }
}

TEST(SelfWrapper, OffsetsMayBeInt32AndStrided) {
  RaggedPrefillWrapper wrapper(small_options());
  const Tensors t(9);
  const Tensor truth = expected(t, {0, 4, 9}, {0, 4, 9}, sees_all);
  const std::vector<std::int32_t> strided = {0, -1, 4, -1, 9, -1};
  wrapper.plan(IndexView(strided.data(), IndexType::int32, 3, 2));
  run(wrapper, t);
  expect_close(t.out, truth);
}

TEST(SelfWrapper, SpansLeaveGapsUntouched) {
  RaggedPrefillWrapper wrapper(small_options());
  const Tensors t(12);
  const Offsets starts = {2, 8};
  const Offsets lengths = {3, 4};
  Tensor truth = t.out;
  attend_plainly(t.q, t.k, t.v, truth, {2, 5}, {2, 5}, sees_all);
  attend_plainly(t.q, t.k, t.v, truth, {8, 12}, {8, 12}, sees_all);
  wrapper.plan(SegmentSpans{starts, lengths});
  run(wrapper, t);
  expect_close(t.out, truth);
}

TEST(SelfWrapper, ScaleDefaultsToTheTrueHeadDim) {
  RaggedPrefillWrapper wrapper(small_options());
  wrapper.plan({0, 1});
  EXPECT_DOUBLE_EQ(wrapper.current_plan().problem.sm_scale, 0.25);
  WrapperOptions options = small_options();
  options.head_dim = 72;
  options.sm_scale = 0.5;
  RaggedPrefillWrapper scaled(options);
  scaled.plan({0, 1});
  EXPECT_DOUBLE_EQ(scaled.current_plan().problem.sm_scale, 0.5);
}

TEST(SelfWrapper, WritesTheLse) {
  RaggedPrefillWrapper wrapper(small_options());
  const Tensors t(3);
  wrapper.plan({0, 1, 3}, true);
  std::vector<float> lse(12, 7.0F);
  run(wrapper, t, LseView::packed(lse.data(), 3, 4));
  // The first row of each segment sees one key: its LSE is that score.
  for (const std::int64_t token : {0, 1}) {
    for (std::int64_t head = 0; head < 4; ++head) {
      double score = 0.0;
      for (std::int64_t d = 0; d < 16; ++d) {
        score += static_cast<double>(t.q.at(token, head, d)) * t.k.at(token, head / 2, d);
      }
      EXPECT_NEAR(lse[static_cast<std::size_t>(token * 4 + head)], score / 4.0, 1e-5);
    }
  }
}

TEST(CrossWrapper, PairsSegmentsByPosition) {
  RaggedCrossPrefillWrapper wrapper(small_options());
  const Tensors t(8, 11);
  const Offsets q = {0, 3, 5, 8};
  const Offsets kv = {0, 7, 7, 11};  // the second segment has no keys: zeros
  const Tensor truth = expected(t, q, kv, sees_all);
  wrapper.plan(q, kv);
  run(wrapper, t);
  expect_close(t.out, truth);
}

TEST(CrossWrapper, TakesSpans) {
  RaggedCrossPrefillWrapper wrapper(small_options());
  const Tensors t(6, 9);
  const Offsets q_starts = {4, 0};
  const Offsets q_lengths = {2, 3};
  const Offsets kv_starts = {0, 5};
  const Offsets kv_lengths = {4, 4};
  Tensor truth = t.out;
  attend_plainly(t.q, t.k, t.v, truth, {4, 6}, {0, 4}, sees_all);
  attend_plainly(t.q, t.k, t.v, truth, {0, 3}, {5, 9}, sees_all);
  wrapper.plan(SegmentSpans{q_starts, q_lengths}, SegmentSpans{kv_starts, kv_lengths});
  run(wrapper, t);
  expect_close(t.out, truth);
}

TEST(BlockCausalWrapper, SeesItsOwnBlockAndTheOnesBefore) {
  WrapperOptions options = small_options();
  options.block_size = 4;
  RaggedBlockCausalWrapper wrapper(options);
  const Tensors t(17);
  const Offsets offsets = {0, 10, 10, 17};
  const Tensor truth =
      expected(t, offsets, offsets, [](std::int64_t row, std::int64_t, std::int64_t kv_len) {
        return std::min((row / 4 + 1) * 4, kv_len);
      });
  wrapper.plan(offsets);
  run(wrapper, t);
  expect_close(t.out, truth);
}

// Keys of segment i in one tensor: its prefix rows, then its fresh rows.
void join(const Tensor& prefix, const Offsets& prefix_offsets, const Tensor& fresh,
          const Offsets& fresh_offsets, Tensor& joined) {
  std::size_t next = 0;
  const auto append = [&](const Tensor& from, std::int64_t begin, std::int64_t end) {
    const auto row = static_cast<std::size_t>(from.heads() * from.head_dim());
    for (std::size_t i = static_cast<std::size_t>(begin) * row;
         i < static_cast<std::size_t>(end) * row; ++i) {
      joined.values[next++] = from.values[i];
    }
  };
  for (std::size_t i = 0; i + 1 < prefix_offsets.size(); ++i) {
    append(prefix, prefix_offsets[i], prefix_offsets[i + 1]);
    append(fresh, fresh_offsets[i], fresh_offsets[i + 1]);
  }
}

TEST(PrefixedWrapper, JoinedAndTwoSourcesAgreeWithTheConcatenation) {
  const Offsets q = {0, 4, 9, 11};
  const Offsets prefix = {0, 7, 7, 10};
  const Offsets kv = {0, 11, 16, 21};
  const Tensors t(11, 11);
  const Tensor prefix_k(10, 2, 16, 20);
  const Tensor prefix_v(10, 2, 16, 21);
  Tensors joined(11, 21);
  joined.q = t.q;
  join(prefix_k, prefix, t.k, q, joined.k);
  join(prefix_v, prefix, t.v, q, joined.v);
  PrefixedPrefillWrapper wrapper(small_options());
  for (const bool causal : {false, true}) {
    const Tensor truth = expected(joined, q, kv, causal ? sees_causal : sees_all);
    wrapper.plan(q, kv, causal);
    run(wrapper, joined);
    expect_close(joined.out, truth);

    wrapper.plan_two_sources(q, prefix, causal);
    wrapper.run_two_sources(t.q.view(), prefix_k.view(), prefix_v.view(), t.k.view(), t.v.view(),
                            t.out.view());
    expect_close(t.out, truth);
  }
}

TEST(PrefixedWrapper, FreshKeysMayHaveOffsetsOfTheirOwn) {
  const Offsets q = {0, 4, 6};
  const Offsets prefix = {0, 3, 8};
  const Offsets fresh = {0, 5, 6};
  const Tensors t(6, 6);
  const Tensor prefix_k(8, 2, 16, 20);
  const Tensor prefix_v(8, 2, 16, 21);
  Tensors joined(6, 14);
  joined.q = t.q;
  join(prefix_k, prefix, t.k, fresh, joined.k);
  join(prefix_v, prefix, t.v, fresh, joined.v);
  const Tensor truth = expected(joined, q, {0, 8, 14}, sees_causal);
  PrefixedPrefillWrapper wrapper(small_options());
  wrapper.plan_two_sources(q, prefix, fresh, true);
  wrapper.run_two_sources(t.q.view(), prefix_k.view(), prefix_v.view(), t.k.view(), t.v.view(),
                          t.out.view());
  expect_close(t.out, truth);
}

TEST(Wrapper, TwoPlansAliveAtOnceKeepTheirOwnLayouts) {
  RaggedPrefillWrapper windows(small_options());
  RaggedPrefillWrapper full(small_options());
  const Offsets window_offsets = {0, 8, 16, 24, 32};
  const Offsets full_offsets = {0, 32};
  windows.plan(window_offsets);
  full.plan(full_offsets);
  for (int layer = 0; layer < 8; ++layer) {
    const Tensors t(32, 32, static_cast<unsigned>(layer));
    const Offsets& offsets = layer == 7 ? full_offsets : window_offsets;
    const Tensor truth = expected(t, offsets, offsets, sees_all);
    run(layer == 7 ? full : windows, t);
    expect_close(t.out, truth);
  }
}

TEST(Wrapper, ZeroSegmentsAndZeroTokensDoNothing) {
  RaggedPrefillWrapper wrapper(small_options());
  const Tensors t(2);
  const Tensor before = t.out;
  for (const Offsets& offsets : {Offsets{0}, Offsets{0, 0, 0}}) {
    wrapper.plan(offsets);
    EXPECT_EQ(wrapper.num_segments(), static_cast<std::int64_t>(offsets.size()) - 1);
    run(wrapper, t);
    EXPECT_EQ(t.out.values, before.values);
  }
}

TEST(Wrapper, FactsAreHonoured) {
  WrapperOptions options = small_options();
  options.facts = DeviceFacts::host(3);
  options.facts->simd = "scalar";
  RaggedPrefillWrapper wrapper(options);
  wrapper.plan({0, 5});
  EXPECT_EQ(wrapper.current_plan().device, *options.facts);
  options.threads = 2;
  RaggedPrefillWrapper narrower(options);
  narrower.plan({0, 5});
  EXPECT_EQ(narrower.current_plan().device.threads, 2);
}

class InlineExecutor final : public Executor {
 public:
  explicit InlineExecutor(int offered = 3) : offered_(offered) {}
  [[nodiscard]] int concurrency() const noexcept override { return offered_; }
  void run(int num_workers, void (*task)(void*, int), void* context) override {
    for (int worker = 0; worker < num_workers; ++worker) task(context, worker);
  }

 private:
  int offered_;
};

TEST(Wrapper, ThreadsAreWhatTheExecutorOffers) {
  InlineExecutor executor;
  WrapperOptions options = small_options();
  options.executor = &executor;
  RaggedPrefillWrapper wrapper(options);
  wrapper.plan({0, 5, 40});
  EXPECT_EQ(wrapper.current_plan().device.threads, 3);
  const Tensors t(40);
  const Tensor truth = expected(t, {0, 5, 40}, {0, 5, 40}, sees_all);
  run(wrapper, t);
  expect_close(t.out, truth);
}

TEST(Wrapper, AnExecutorsOfferHasBounds) {
  WrapperOptions options = small_options();
  for (const int offered : {0, -1}) {
    InlineExecutor none(offered);
    options.executor = &none;
    EXPECT_EQ(
        refusal(ErrorCode::invalid_argument, [&] { const RaggedPrefillWrapper wrapper(options); }),
        "executor must offer at least 1 worker; its concurrency() is " + std::to_string(offered));
  }
  InlineExecutor boundless(std::numeric_limits<int>::max());
  options.executor = &boundless;
  RaggedPrefillWrapper wrapper(options);
  wrapper.plan({0, 5});
  EXPECT_EQ(wrapper.current_plan().device.threads, 4096);
}

TEST(Wrapper, MovesWithItsPlan) {
  const Tensors t(6);
  RaggedPrefillWrapper first(small_options());
  first.plan({0, 2, 6});
  RaggedPrefillWrapper second(std::move(first));
  EXPECT_EQ(second.num_segments(), 2);
  run(second, t);
  // NOLINTBEGIN(bugprone-use-after-move): what a moved-from wrapper answers is tested here.
  EXPECT_FALSE(first.planned());
  EXPECT_EQ(first.workspace_bytes(), 0U);
  EXPECT_EQ(first.options().num_qo_heads, 0);
  EXPECT_EQ(refusal(ErrorCode::invalid_state,
                    [&] {
                      first.plan({0, 1});
                    }),
            "this wrapper was moved from");
  EXPECT_EQ(refusal(ErrorCode::invalid_state, [&] { run(first, t); }),
            "this wrapper was moved from");
  first = RaggedPrefillWrapper(small_options());
  // NOLINTEND(bugprone-use-after-move)
  first.plan({0, 6});
  run(first, t);
}

TEST(Wrapper, TwoWrappersOnTwoThreadsDoNotDisturbEachOther) {
  const auto work = [](unsigned seed, const Offsets& offsets) {
    RaggedPrefillWrapper wrapper(small_options());
    Tensors t(offsets.back(), -1, seed);
    const Tensor truth = expected(t, offsets, offsets, sees_all);
    for (int step = 0; step < 50; ++step) {
      wrapper.plan(Offsets{0, offsets.back()});
      wrapper.plan(offsets);
      std::fill(t.out.values.begin(), t.out.values.end(), 0.0F);
      run(wrapper, t);
      expect_close(t.out, truth);
    }
  };
  std::thread other(work, 5U, Offsets{0, 9, 14, 30});
  work(6U, Offsets{0, 1, 2, 25});
  other.join();
}

TEST(Wrapper, PlannedOnOneThreadAndRunOnAnother) {
  RaggedPrefillWrapper wrapper(small_options());
  const Tensors t(12);
  const Tensor truth = expected(t, {0, 5, 12}, {0, 5, 12}, sees_all);
  std::thread([&] { wrapper.plan({0, 5, 12}); }).join();
  std::thread([&] { run(wrapper, t); }).join();
  expect_close(t.out, truth);
}

// Columns of one rank's heads out of a tensor of all heads.
Tensor slice_heads(const Tensor& whole, std::int64_t begin, std::int64_t count) {
  Tensor slice(whole.tokens(), count, whole.head_dim());
  std::size_t next = 0;
  for (std::int64_t token = 0; token < whole.tokens(); ++token) {
    for (std::int64_t head = begin; head < begin + count; ++head) {
      for (std::int64_t d = 0; d < whole.head_dim(); ++d) {
        slice.values[next++] = whole.at(token, head, d);
      }
    }
  }
  return slice;
}

void expect_shards_equal_the_whole(int num_qo_heads, int num_kv_heads, int num_shards) {
  RaggedAttentionConfig config;
  config.num_qo_heads = num_qo_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = 64;
  const Offsets offsets = {0, 3, 40, 57};
  const Tensor q(57, num_qo_heads, 64, 1);
  const Tensor k(57, num_kv_heads, 64, 2);
  const Tensor v(57, num_kv_heads, 64, 3);
  const Tensor out(57, num_qo_heads, 64, 4);
  const auto attend = [&](const RaggedAttentionConfig& of, const Tensor& rank_q,
                          const Tensor& rank_k, const Tensor& rank_v, const Tensor& rank_out) {
    RaggedPrefillWrapper wrapper({.num_qo_heads = of.num_qo_heads,
                                  .num_kv_heads = of.num_kv_heads,
                                  .head_dim = of.head_dim,
                                  .q_data_type = DType::fp32});
    wrapper.plan(offsets, true);
    wrapper.run(rank_q.view(), rank_k.view(), rank_v.view(), rank_out.view());
  };
  attend(config, q, k, v, out);
  RaggedAttentionConfig sharded = config;
  sharded.shard(num_shards);
  const std::int64_t group = num_qo_heads / num_kv_heads;
  for (int rank = 0; rank < num_shards; ++rank) {
    const std::int64_t q_begin = std::int64_t{rank} * sharded.num_qo_heads;
    const Tensor rank_q = slice_heads(q, q_begin, sharded.num_qo_heads);
    const Tensor rank_k = slice_heads(k, q_begin / group, sharded.num_kv_heads);
    const Tensor rank_v = slice_heads(v, q_begin / group, sharded.num_kv_heads);
    const Tensor rank_out(57, sharded.num_qo_heads, 64);
    attend(sharded, rank_q, rank_k, rank_v, rank_out);
    EXPECT_EQ(rank_out.values, slice_heads(out, q_begin, sharded.num_qo_heads).values)
        << "rank " << rank;
  }
}

TEST(Sharding, OutputsSideBySideAreTheWhole) {
  expect_shards_equal_the_whole(32, 4, 8);  // each rank one replicated key head
  expect_shards_equal_the_whole(16, 8, 4);
  expect_shards_equal_the_whole(28, 4, 2);
}

}  // namespace
}  // namespace ragged::test
