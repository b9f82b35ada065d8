#pragma once

// A fixed set of threads that any number of callers share. What default_executor() is made of.

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <ragged/executor.hpp>

namespace ragged {

class ThreadPool final : public Executor {
 public:
  // `concurrency` workers: the calling thread of each run, and concurrency - 1 threads. Where the
  // system refuses a thread, the pool is as large as what it granted.
  explicit ThreadPool(int concurrency);
  // Precondition: no run is in progress.
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int concurrency() const noexcept override {
    return static_cast<int>(threads_.size()) + 1;
  }
  // The calling thread works too, so a run makes progress also where every thread is busy, and a
  // task may call run() itself.
  void run(int num_workers, void (*task)(void* context, int worker), void* context) override;

 private:
  struct Job;
  using Lock = std::unique_lock<std::mutex>;

  void work();
  void run_one(Job& job, Lock& lock);
  void append(Job& job) noexcept;
  void remove(Job& job) noexcept;

  std::mutex mutex_;
  std::condition_variable work_came_;  // for threads that sleep
  std::condition_variable job_ended_;  // for callers that sleep
  Job* first_ = nullptr;               // jobs with unclaimed workers, oldest first
  int sleepers_ = 0;                   // threads that wait on work_came_
  std::atomic<int> unclaimed_{0};      // over all jobs; what a spinning thread looks at
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace ragged
