#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>

#include "capi_test.hpp"

namespace capi_test {
namespace {

struct Counting {
  std::atomic<int> runs = 0;
  int workers = 2;
};

int count_workers(void* context) { return static_cast<Counting*>(context)->workers; }

void run_on_threads(void* context, int num_workers, void (*task)(void*, int), void* task_context) {
  static_cast<Counting*>(context)->runs += 1;
  std::vector<std::thread> threads;
  for (int worker = 0; worker < num_workers; ++worker) {
    threads.emplace_back([=] { task(task_context, worker); });
  }
  for (auto& thread : threads) thread.join();
}

Handle<ragged_executor> make_executor(Counting& counting) {
  ragged_executor_callbacks callbacks = sized<ragged_executor_callbacks>();
  callbacks.context = &counting;
  callbacks.concurrency = count_workers;
  callbacks.run = run_on_threads;
  ragged_executor* executor = nullptr;
  EXPECT_OK(ragged_executor_create(&callbacks, &executor));
  return Handle<ragged_executor>(executor);
}

// Plans and runs one segment of `rows` rows; the step is checked.
void run_rows(ragged_wrapper* wrapper, std::int64_t rows) {
  const std::int64_t offsets[] = {0, rows};
  const ragged_index cu = ragged_index_int64(offsets, 2);
  ASSERT_OK(ragged_wrapper_plan(wrapper, &cu, 0));
  KnownStep step(rows, rows);
  ASSERT_OK(ragged_wrapper_run(wrapper, &step.arguments));
  step.expect_row(rows - 1, static_cast<double>(rows - 1) / 2, rows);
}

bool has_cpu_backend() {
  std::int32_t built = 0;
  EXPECT_OK(ragged_backend_built(RAGGED_BACKEND_CPU, &built));
  return built == 1;
}

TEST(CapiExecutor, RunsTheWorkOfItsWrapper) {
  if (!has_cpu_backend()) GTEST_SKIP() << "only the cpu backend hands its work to an executor";
  Counting counting;
  const auto executor = make_executor(counting);
  ragged_wrapper_options options = small_options();
  options.backend = RAGGED_BACKEND_CPU;
  options.executor = executor.get();
  options.threads = 2;
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, options);
  run_rows(wrapper.get(), 300);
  EXPECT_GT(counting.runs, 0);
}

TEST(CapiExecutor, RefusesByName) {
  ragged_executor_callbacks callbacks = sized<ragged_executor_callbacks>();
  ragged_executor* executor = nullptr;
  expect_invalid(ragged_executor_create(&callbacks, &executor), "callbacks->concurrency");
  callbacks.concurrency = count_workers;
  expect_invalid(ragged_executor_create(&callbacks, &executor), "callbacks->run");
  EXPECT_EQ(executor, nullptr);
}

TEST(CapiLog, ReceivesThePlanBeforeEachRun) {
  struct Seen {
    int calls = 0;
    std::int64_t tokens = 0;
  } seen;
  ASSERT_OK(ragged_set_log(
      [](void* context, const ragged_log_record* record) {
        auto* s = static_cast<Seen*>(context);
        ragged_plan_info info = sized<ragged_plan_info>();
        EXPECT_EQ(record->struct_size, sizeof(ragged_log_record));
        EXPECT_OK(ragged_plan_get_info(record->plan, &info));
        s->calls += 1;
        s->tokens = info.total_tokens;
      },
      &seen));
  const auto wrapper = make_wrapper(RAGGED_KIND_SELF, small_options());
  run_rows(wrapper.get(), 5);
  run_rows(wrapper.get(), 7);
  EXPECT_EQ(seen.calls, 2);
  EXPECT_EQ(seen.tokens, 7);
  ASSERT_OK(ragged_set_log(nullptr, nullptr));
  run_rows(wrapper.get(), 3);
  EXPECT_EQ(seen.calls, 2);
}

TEST(CapiLog, WhatACallbackThrowsEndsAtTheBorder) {
  const auto throwing = [](auto&& throws, int code, const std::string& part) {
    ASSERT_OK(ragged_set_log(throws, nullptr));
    const auto wrapper = make_wrapper(RAGGED_KIND_SELF, small_options());
    const std::int64_t offsets[] = {0, 2};
    const ragged_index cu = ragged_index_int64(offsets, 2);
    ASSERT_OK(ragged_wrapper_plan(wrapper.get(), &cu, 0));
    KnownStep step(2, 2);
    expect_refused(ragged_wrapper_run(wrapper.get(), &step.arguments), code, part);
    ASSERT_OK(ragged_set_log(nullptr, nullptr));
  };
  throwing([](void*, const ragged_log_record*) { throw std::bad_alloc(); },
           RAGGED_ERROR_OUT_OF_MEMORY, "allocation");
  throwing([](void*, const ragged_log_record*) { throw std::logic_error("mine"); },
           RAGGED_ERROR_INTERNAL, "mine");
  throwing([](void*, const ragged_log_record*) { throw 42; }, RAGGED_ERROR_INTERNAL, "unknown");
}

TEST(CapiBackends, EachIsListedOnceBuiltOnesFirst) {
  std::int32_t count = 0;
  ASSERT_OK(ragged_num_backends(&count));
  EXPECT_EQ(count, RAGGED_BACKEND_CUDNN);
  std::set<ragged_backend> seen;
  bool built_before = true;
  for (std::int32_t i = 0; i < count; ++i) {
    ragged_backend backend = RAGGED_BACKEND_AUTO;
    ASSERT_OK(ragged_backend_at(i, &backend));
    EXPECT_TRUE(seen.insert(backend).second) << ragged_backend_name(backend);
    std::int32_t built = -1;
    ASSERT_OK(ragged_backend_built(backend, &built));
    EXPECT_LE(built == 1, built_before) << ragged_backend_name(backend);
    built_before = built == 1;
  }
  std::int32_t built = 0;
  EXPECT_OK(ragged_backend_built(RAGGED_BACKEND_REFERENCE, &built));
  EXPECT_EQ(built, 1);
  ragged_backend backend = RAGGED_BACKEND_AUTO;
  expect_invalid(ragged_backend_at(count, &backend), "index");
  expect_invalid(ragged_backend_at(-1, &backend), "index");
  expect_invalid(ragged_backend_built(RAGGED_BACKEND_AUTO, &built), "auto");
  expect_invalid(ragged_backend_built(99, &built), "backend");
}

TEST(CapiBackends, EachSaysWhatItLacks) {
  ragged_problem problem = sized<ragged_problem>();
  problem.num_qo_heads = 4;
  problem.num_kv_heads = 2;
  problem.head_dim = 72;
  problem.dtype = RAGGED_DTYPE_BF16;
  const auto lacks = [&](ragged_backend backend, const char* device) {
    return text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
      return ragged_backend_lacks(backend, &problem, device, buffer, capacity, length);
    });
  };
  EXPECT_EQ(lacks(RAGGED_BACKEND_REFERENCE, nullptr), "");
  EXPECT_EQ(lacks(RAGGED_BACKEND_REFERENCE, "cpu:avx2:8"), "");
  EXPECT_NE(lacks(RAGGED_BACKEND_REFERENCE, "h200"), "");
  std::int32_t built = -1;
  ASSERT_OK(ragged_backend_built(RAGGED_BACKEND_CUDNN, &built));
  if (built == 0) {
    EXPECT_NE(lacks(RAGGED_BACKEND_CUDNN, "h200").find("not in this build"), std::string::npos);
  }

  std::size_t length = 0;
  const auto refused = [&](ragged_backend backend, const char* device, const std::string& part) {
    expect_invalid(ragged_backend_lacks(backend, &problem, device, nullptr, 0, &length), part);
  };
  refused(RAGGED_BACKEND_AUTO, nullptr, "auto");
  refused(RAGGED_BACKEND_REFERENCE, "z80", "z80");
  problem.head_dim = 0;
  refused(RAGGED_BACKEND_REFERENCE, nullptr, "head_dim");
  problem.head_dim = 72;
  problem.dtype = RAGGED_DTYPE_NONE;
  refused(RAGGED_BACKEND_REFERENCE, nullptr, "problem->dtype");
  problem.dtype = RAGGED_DTYPE_BF16;
  problem.kind = RAGGED_KIND_BLOCK_CAUSAL;
  refused(RAGGED_BACKEND_REFERENCE, nullptr, "block_size");
}

}  // namespace
}  // namespace capi_test
