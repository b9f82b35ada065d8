#include <ragged/tbb_executor.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <ragged/ragged.hpp>

namespace ragged {
namespace {

struct Tally {
  std::atomic<int> counts[64] = {};
  static void task(void* context, int worker) { ++static_cast<Tally*>(context)->counts[worker]; }
};

void expect_each(const Tally& tally, int num_workers, int times) {
  for (int i = 0; i < 64; ++i) EXPECT_EQ(tally.counts[i], i < num_workers ? times : 0) << i;
}

TEST(TbbExecutor, RunsEveryWorkerOnce) {
  TbbExecutor executor(3);
  EXPECT_EQ(executor.concurrency(), 3);
  for (const int num_workers : {0, 1, 2, 3, 40}) {
    Tally tally;
    executor.run(num_workers, Tally::task, &tally);
    expect_each(tally, num_workers, 1);
  }
  EXPECT_GE(TbbExecutor().concurrency(), 1);
}

TEST(TbbExecutor, TakesCallsFromSeveralThreads) {
  TbbExecutor executor(2);
  Tally tally;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 100; ++call) executor.run(5, Tally::task, &tally);
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_each(tally, 5, 400);
}

TEST(TbbExecutor, GivesTheBitsOfThePool) {
  constexpr std::int64_t kTokens = 300, kHeads = 4, kDim = 16;
  std::vector<float> in(kTokens * kHeads * kDim);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  const auto run_on = [&](Executor* executor) {
    std::vector<float> out(in.size());
    RaggedPrefillWrapper attention({.num_qo_heads = kHeads,
                                    .num_kv_heads = kHeads,
                                    .head_dim = kDim,
                                    .q_data_type = DType::fp32,
                                    .threads = 3,
                                    .executor = executor});
    attention.plan({0, 100, 107, 107, 300});
    const auto view = [&](const std::vector<float>& data) {
      return TensorView::packed(data.data(), DType::fp32, kTokens, kHeads, kDim);
    };
    attention.run(view(in), view(in), view(in), view(out));
    return out;
  };
  TbbExecutor executor(3);
  EXPECT_EQ(run_on(&executor), run_on(nullptr));
}

}  // namespace
}  // namespace ragged
