#pragma once

// Who runs the work of a CPU plan. Bring your own, or take the process-wide pool.

namespace ragged {

class Executor {
 public:
  virtual ~Executor() = default;
  // Workers that run() can keep busy at once, the calling thread included; at least 1. A plan takes
  // no more than 4096 of them: each has scratch of its own.
  [[nodiscard]] virtual int concurrency() const noexcept = 0;
  // Calls task(context, worker) once for each worker in [0, num_workers), possibly at the same
  // time, and returns when all calls have returned. `task` does not throw. May be called from
  // several threads at once.
  virtual void run(int num_workers, void (*task)(void* context, int worker), void* context) = 0;
};

// The process-wide pool: made at first use with one worker for each core that the calling thread
// may use then. A waiting worker spins for at most 50 microseconds, then sleeps. Never destroyed,
// so it may be used until the process ends; a child of fork() gets a pool of its own at its first
// call, and must not use a reference from before the fork.
Executor& default_executor();

}  // namespace ragged
