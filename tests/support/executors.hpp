#pragma once

// Executors that start workers in ways a pool seldom does: results must not notice.

#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include <ragged/executor.hpp>

#include "support/random.hpp"

namespace ragged::test {

// `workers` threads, each call on a fresh one, so that all of them do meet.
class ThreadsExecutor : public Executor {
 public:
  explicit ThreadsExecutor(int workers) : workers_(workers) {}
  [[nodiscard]] int concurrency() const noexcept override { return workers_; }
  void run(int num_workers, void (*task)(void*, int), void* context) override {
    ++runs_;
    std::vector<std::thread> threads;
    for (int worker = 1; worker < num_workers; ++worker) {
      threads.emplace_back(task, context, worker);
    }
    if (num_workers > 0) task(context, 0);
    for (std::thread& thread : threads) thread.join();
  }
  // Calls of run() so far.
  [[nodiscard]] int runs() const noexcept { return runs_; }

 private:
  int workers_;
  std::atomic<int> runs_ = 0;
};

// Says it has many workers, then calls them one after another in a shuffled order on the caller's
// thread: the first one takes all the work it can, the rest come too late.
class ShuffledExecutor : public Executor {
 public:
  ShuffledExecutor(int workers, std::uint64_t seed) : workers_(workers), random_(seed) {}
  [[nodiscard]] int concurrency() const noexcept override { return workers_; }
  void run(int num_workers, void (*task)(void*, int), void* context) override {
    std::vector<int> order(static_cast<std::size_t>(num_workers));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) {
      const auto j = static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(i) - 1));
      std::swap(order[i - 1], order[j]);
    }
    for (const int worker : order) task(context, worker);
  }

 private:
  int workers_;
  Random random_;
};

}  // namespace ragged::test
