#pragma once

// A loop over independent pieces on the process-wide pool.

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

#include <ragged/executor.hpp>

namespace ragged::tools {

// An executor of one worker: the caller.
class SerialExecutor final : public Executor {
 public:
  [[nodiscard]] int concurrency() const noexcept override { return 1; }
  void run(int num_workers, void (*task)(void*, int), void* context) override {
    for (int worker = 0; worker < num_workers; ++worker) task(context, worker);
  }
};

// Calls body(i) once for each i in [0, count), on every worker of the pool. Rethrows the first
// exception when all workers have returned.
template <typename Body>
void parallel_for(std::int64_t count, Body body) {
  struct State {
    std::atomic<std::int64_t> next{0};
    std::int64_t count;
    Body* body;
    std::mutex mutex;
    std::exception_ptr failure;
  } state{.count = count, .body = &body, .mutex = {}, .failure = nullptr};
  Executor& pool = default_executor();
  pool.run(
      pool.concurrency(),
      [](void* context, int) {
        auto& s = *static_cast<State*>(context);
        try {
          for (std::int64_t i = s.next.fetch_add(1); i < s.count; i = s.next.fetch_add(1)) {
            (*s.body)(i);
          }
        } catch (...) {
          const std::lock_guard<std::mutex> lock(s.mutex);
          if (!s.failure) s.failure = std::current_exception();
        }
      },
      &state);
  if (state.failure) std::rethrow_exception(state.failure);
}

}  // namespace ragged::tools
