#pragma once

// A caller's executor as ours.

#include <ragged/c/runtime.h>
#include <ragged/executor.hpp>

struct ragged_executor final : ragged::Executor {
  explicit ragged_executor(const ragged_executor_callbacks& given) : callbacks(given) {}

  [[nodiscard]] int concurrency() const noexcept override {
    const int workers = callbacks.concurrency(callbacks.context);
    return workers < 1 ? 1 : workers;
  }
  void run(int num_workers, void (*task)(void* context, int worker), void* context) override {
    callbacks.run(callbacks.context, num_workers, task, context);
  }

  ragged_executor_callbacks callbacks;
};
