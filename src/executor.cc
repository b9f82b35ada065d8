#include <ragged/executor.hpp>

#include <algorithm>
#include <chrono>
#include <system_error>

#include <ragged/plan.hpp>

#include "thread_pool.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#define RAGGED_POSIX_THREADS 1
#endif

namespace ragged {
namespace {

// Longer than the gap between two layers' runs, shorter than what a sleeping thread costs to wake.
constexpr std::chrono::microseconds kSpin{50};

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Waits at most kSpin for `ready`.
template <typename Ready>
void spin_until(Ready&& ready) noexcept {
  constexpr int kPausesPerClockRead = 16;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready()) return;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
}

// Threads made while this lives take no signals: those are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
#if defined(RAGGED_POSIX_THREADS)
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
#else
  SignalsBlocked() noexcept = default;
#endif
};

}  // namespace

// Lives on the stack of the run() that it belongs to. Everything but `ended` is guarded by the
// pool's mutex, and storing `ended` is the last that any thread does to it.
struct ThreadPool::Job {
  void (*task)(void* context, int worker) = nullptr;
  void* context = nullptr;
  int num_workers = 0;
  int claimed = 0;
  int unfinished = 0;
  bool caller_sleeps = false;
  Job* next = nullptr;
  std::atomic<bool> ended{false};
};

ThreadPool::ThreadPool(int concurrency) {
  const SignalsBlocked blocked;
  threads_.reserve(static_cast<std::size_t>(std::max(concurrency - 1, 0)));
  try {
    while (concurrency - 1 > static_cast<int>(threads_.size())) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    // As many as there are; run() needs none.
  }
}

ThreadPool::~ThreadPool() {
  {
    const Lock lock(mutex_);
    stopping_.store(true, std::memory_order_relaxed);
  }
  work_came_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::append(Job& job) noexcept {
  Job** last = &first_;
  while (*last != nullptr) last = &(*last)->next;
  *last = &job;
}

void ThreadPool::remove(Job& job) noexcept {
  Job** link = &first_;
  while (*link != &job) link = &(*link)->next;
  *link = job.next;
}

// Claims one worker of the job and runs it. The lock is held at entry and at exit, not between.
void ThreadPool::run_one(Job& job, Lock& lock) {
  const int worker = job.claimed++;
  if (job.claimed == job.num_workers) remove(job);
  unclaimed_.fetch_sub(1, std::memory_order_relaxed);
  lock.unlock();
  job.task(job.context, worker);
  lock.lock();
  if (--job.unfinished > 0) return;
  const bool wake = job.caller_sleeps;
  job.ended.store(true, std::memory_order_release);
  if (wake) job_ended_.notify_all();
}

void ThreadPool::work() {
  Lock lock(mutex_);
  while (true) {
    if (first_ == nullptr) {
      lock.unlock();
      spin_until([this] {
        return unclaimed_.load(std::memory_order_relaxed) > 0 ||
               stopping_.load(std::memory_order_relaxed);
      });
      lock.lock();
      // Work is appended under the mutex, so none can come unseen between this look and the sleep.
      ++sleepers_;
      work_came_.wait(
          lock, [this] { return first_ != nullptr || stopping_.load(std::memory_order_relaxed); });
      --sleepers_;
      if (first_ == nullptr) return;
    }
    run_one(*first_, lock);
  }
}

void ThreadPool::run(int num_workers, void (*task)(void* context, int worker), void* context) {
  if (num_workers == 1 || threads_.empty()) {
    for (int worker = 0; worker < num_workers; ++worker) task(context, worker);
    return;
  }
  if (num_workers < 1) return;
  Job job;
  job.task = task;
  job.context = context;
  job.num_workers = job.unfinished = num_workers;

  Lock lock(mutex_);
  append(job);
  unclaimed_.fetch_add(num_workers, std::memory_order_relaxed);
  for (int wake = std::min(sleepers_, num_workers - 1); wake > 0; --wake) work_came_.notify_one();
  while (job.claimed < num_workers) run_one(job, lock);
  if (job.unfinished == 0) return;
  lock.unlock();
  const auto ended = [&job] { return job.ended.load(std::memory_order_acquire); };
  spin_until(ended);
  if (ended()) return;
  lock.lock();
  job.caller_sleeps = true;
  job_ended_.wait(lock, [&job] { return job.unfinished == 0; });
}

namespace {

std::atomic<ThreadPool*> process_pool{nullptr};

#if defined(RAGGED_POSIX_THREADS)
// A child of fork has none of its parent's threads, and the mutex as some thread left it: the child
// starts a pool of its own.
[[maybe_unused]] const int fork_handler = pthread_atfork(
    nullptr, nullptr, [] { process_pool.store(nullptr, std::memory_order_relaxed); });
#endif

}  // namespace

// Never destroyed: a run on another thread may outlive the end of main, and threads that wait end
// with the process.
Executor& default_executor() {
  ThreadPool* pool = process_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  auto* made = new ThreadPool(DeviceFacts::host().threads);
  if (process_pool.compare_exchange_strong(pool, made, std::memory_order_acq_rel)) return *made;
  delete made;  // another thread was first
  return *pool;
}

}  // namespace ragged
