#pragma once

// Runs CPU plans on oneTBB's threads, for programs that have those already. Needs oneTBB 2021 or
// newer: link ragged::tbb. Nothing else in the library includes this.

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <ragged/executor.hpp>

namespace ragged {

// An arena of its own among oneTBB's workers. Waiting workers rest by oneTBB's rules, not by those
// of the library's pool.
class TbbExecutor final : public Executor {
 public:
  // `concurrency`: workers at once, the calling thread included; by default as many as oneTBB finds
  // for the calling thread.
  explicit TbbExecutor(int concurrency = oneapi::tbb::task_arena::automatic) : arena_(concurrency) {
    arena_.initialize();
  }

  [[nodiscard]] int concurrency() const noexcept override { return arena_.max_concurrency(); }

  // A thread that waits here takes no other work of the program's meanwhile.
  void run(int num_workers, void (*task)(void* context, int worker), void* context) override {
    arena_.execute([=] {
      oneapi::tbb::this_task_arena::isolate([=] {
        oneapi::tbb::parallel_for(
            0, num_workers, 1, [=](int worker) { task(context, worker); },
            oneapi::tbb::simple_partitioner());
      });
    });
  }

 private:
  oneapi::tbb::task_arena arena_;
};

}  // namespace ragged
