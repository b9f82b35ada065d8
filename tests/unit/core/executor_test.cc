#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "support.hpp"
#include "thread_pool.hpp"

#if defined(__unix__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace ragged {
namespace {

// Counts how often each worker index ran.
struct Tally {
  explicit Tally(int num_workers)
      : counts(std::make_unique<std::atomic<int>[]>(static_cast<std::size_t>(num_workers))),
        size(num_workers) {}
  static void task(void* context, int worker) {
    static_cast<Tally*>(context)->counts[static_cast<std::size_t>(worker)].fetch_add(
        1, std::memory_order_relaxed);
  }
  // True if every index ran `times` times, read without any synchronization but run()'s own.
  [[nodiscard]] bool all(int times) const {
    for (int i = 0; i < size; ++i) {
      if (counts[static_cast<std::size_t>(i)].load(std::memory_order_relaxed) != times)
        return false;
    }
    return true;
  }
  std::unique_ptr<std::atomic<int>[]> counts;
  int size;
};

TEST(ThreadPool, EveryWorkerRunsOnce) {
  for (const int concurrency : {1, 2, 5}) {
    ThreadPool pool(concurrency);
    EXPECT_EQ(pool.concurrency(), concurrency);
    for (const int num_workers : {0, 1, 2, 3, 5, 64}) {
      Tally tally(num_workers);
      pool.run(num_workers, Tally::task, &tally);
      EXPECT_TRUE(tally.all(1)) << concurrency << " threads, " << num_workers << " workers";
    }
  }
}

TEST(ThreadPool, PlainWritesOfATaskAreSeenAfterTheRun) {
  ThreadPool pool(3);
  std::vector<int> values(16, 0);
  for (int round = 1; round <= 200; ++round) {
    pool.run(
        16, [](void* context, int worker) { ++static_cast<int*>(context)[worker]; }, values.data());
    ASSERT_EQ(values, std::vector<int>(16, round));
  }
}

TEST(ThreadPool, RunsAtTheSameTime) {
  // Each worker waits for the other: it ends only if two threads run.
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  pool.run(
      2,
      [](void* context, int) {
        auto& count = *static_cast<std::atomic<int>*>(context);
        count.fetch_add(1);
        while (count.load() < 2) std::this_thread::yield();
      },
      &arrived);
  EXPECT_EQ(arrived.load(), 2);
}

TEST(ThreadPool, WakesThreadsThatSleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(round % 2 == 0 ? 300 : 40));
    Tally tally(3);
    pool.run(3, Tally::task, &tally);
    ASSERT_TRUE(tally.all(1));
  }
}

TEST(ThreadPool, CallersSleepThroughLongTasks) {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  pool.run(
      2,
      [](void* context, int worker) {
        if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        static_cast<std::atomic<int>*>(context)->fetch_add(1);
      },
      &done);
  EXPECT_EQ(done.load(), 2);
}

TEST(ThreadPool, ManyCallersAtOnce) {
  ThreadPool pool(4);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&pool, &wrong, caller] {
      for (int round = 0; round < 400; ++round) {
        const int num_workers = 1 + (round + caller) % 7;
        Tally tally(num_workers);
        pool.run(num_workers, Tally::task, &tally);
        if (!tally.all(1)) wrong.fetch_add(1);
        if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(120));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, ATaskMayRunTasks) {
  ThreadPool pool(2);
  struct Outer {
    ThreadPool* pool;
    Tally inner{8};
  } outer{&pool};
  pool.run(
      4,
      [](void* context, int) {
        auto& self = *static_cast<Outer*>(context);
        self.pool->run(8, Tally::task, &self.inner);
      },
      &outer);
  EXPECT_TRUE(outer.inner.all(4));
}

TEST(ThreadPool, ComesAndGoes) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(1 + round % 4);
    Tally tally(4);
    if (round % 3 != 0) {
      pool.run(4, Tally::task, &tally);
      ASSERT_TRUE(tally.all(1));
    }
  }
}

#if defined(__unix__)
double cpu_seconds_of_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A waiting worker spins for 50 microseconds, then sleeps; four that spun on would take all the
// processor time that there is.
TEST(ThreadPool, BurnsNoProcessorTimeWhileIdle) {
  ThreadPool pool(4);
  Tally tally(4);
  pool.run(4, Tally::task, &tally);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu_seconds_of_process();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(cpu_seconds_of_process() - before, 0.02);
}
#endif

TEST(DefaultExecutor, IsOneForTheProcess) {
  Executor* seen[4] = {};
  std::vector<std::thread> threads;
  for (Executor*& slot : seen) threads.emplace_back([&slot] { slot = &default_executor(); });
  for (std::thread& thread : threads) thread.join();
  for (const Executor* executor : seen) EXPECT_EQ(executor, &default_executor());
  EXPECT_EQ(default_executor().concurrency(), DeviceFacts::host().threads);
}

#if defined(__unix__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RAGGED_NO_FORK 1
#endif
#endif
#if !defined(RAGGED_NO_FORK)
// The thread sanitizer refuses threads in a child of a process with threads.
TEST(DefaultExecutor, AChildOfForkHasAPoolOfItsOwn) {
  Tally before(4);
  default_executor().run(4, Tally::task, &before);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Tally tally(4);
    default_executor().run(4, Tally::task, &tally);
    _exit(tally.all(1) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}
#endif
#endif

}  // namespace
}  // namespace ragged
