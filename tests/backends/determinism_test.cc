// The same bits by any number of workers in any order, on any run, on any thread.

#include <gtest/gtest.h>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "backends/sample_cases.hpp"
#include "support/executors.hpp"
#include "support/threads.hpp"

namespace ragged::test {
namespace {

// The target's facts with so many workers.
Target with_threads(const Target& target, int threads) {
  Target changed = target;
  changed.facts.threads = threads;
  return changed;
}

TARGET_TEST(determinism, any_number_of_workers_in_any_order) {
  if (target.facts.device.kind != DeviceKind::cpu) GTEST_SKIP() << "a GPU takes no executor";
  for (const Case& c : sample_cases(target)) {
    for (const DType dtype : sample_dtypes(target)) {
      SCOPED_TRACE(c.name + " " + std::string(to_string(dtype)));
      const Data data = make_data(c, dtype);
      const Result usual = execute(target, data);
      for (const int workers : {1, 2, 3, 7}) {
        const Target changed = with_threads(target, workers);
        ThreadsExecutor threads(workers);
        ShuffledExecutor shuffled(workers, static_cast<std::uint64_t>(workers));
        How how;
        how.executor = &threads;
        const std::string count = std::to_string(workers);
        expect_same_bits(data, execute(changed, data, how), usual, count + " threads");
        how.path = Path::wrapper;
        how.executor = &shuffled;
        expect_same_bits(data, execute(changed, data, how), usual, count + " shuffled workers");
      }
      // Fewer workers than the plan was told of, and more.
      ThreadsExecutor two(2);
      How how;
      how.executor = &two;
      expect_same_bits(data, execute(with_threads(target, 7), data, how), usual, "2 of 7");
      expect_same_bits(data, execute(with_threads(target, 1), data, how), usual, "2 for 1");
    }
  }
}

TARGET_TEST(determinism, run_after_run) {
  for (const Case& c : sample_cases(target)) {
    const Data data = make_data(c, DType::bf16);
    Step step(data, *target.memory, Poison::nan);
    AnyWrapper wrapper(c, wrapper_options(target, c, DType::bf16));
    wrapper.plan(step);
    wrapper.run(step);
    const Result first = step.collect(true);
    for (int i = 0; i < 5; ++i) {
      step.reset_output();
      wrapper.run(step);
      expect_same_bits(data, step.collect(true), first, c.name + ", run " + std::to_string(i + 2));
    }
  }
}

TARGET_TEST(determinism, nothing_is_started_without_rows) {
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{}, std::vector<std::int64_t>{0, 0}}) {
    Case c;
    c.name = "no_rows";
    c.q_lengths = lengths;
    const Data data = make_data(c, DType::bf16);
    for (const Path path : {Path::plan, Path::wrapper, Path::capacity}) {
      ThreadsExecutor executor(2);
      How how;
      how.executor = &executor;
      how.path = path;
      const Result result = execute(target, data, how);
      EXPECT_TRUE(result.out.empty());
      EXPECT_EQ(executor.runs(), 0);
    }
  }
  // Tensors without rows need no memory either.
  Case c;
  c.name = "no_rows";
  RaggedPrefillWrapper wrapper(wrapper_options(target, c, DType::bf16));
  wrapper.plan({0, 0, 0});
  const TensorView none =
      TensorView::packed(nullptr, DType::bf16, 0, 8, 64, target.memory->device());
  wrapper.run(none, none, none, none);
}

TARGET_TEST(determinism, edge17_two_plans_alive_in_turn) {
  Case windows;
  windows.name = "edge17_windows";
  windows.num_qo_heads = 1;
  windows.num_kv_heads = 1;
  windows.head_dim = 32;
  const std::int64_t tokens = target.slow || target.narrowed ? 960 : 15360;
  windows.q_lengths.assign(static_cast<std::size_t>(tokens / 64), 64);
  windows.sampled_rows = 100;
  Case full = windows;
  full.q_lengths = {tokens};
  full.sampled_rows = 10;
  const Data window_data = make_data(windows, DType::fp32);
  Data full_data = make_data(full, DType::fp32);
  ASSERT_EQ(full_data.q, window_data.q);  // one tensor, two layouts

  Step step(window_data, *target.memory, Poison::nan);
  Step full_step(full_data, *target.memory, Poison::nan);
  AnyWrapper window_wrapper(windows, wrapper_options(target, windows, DType::fp32));
  AnyWrapper full_wrapper(full, wrapper_options(target, full, DType::fp32));
  window_wrapper.plan(step);
  full_wrapper.plan(full_step);
  Result window_result;
  Result full_result;
  for (int layer = 0; layer < 16; ++layer) {
    if (layer % 8 == 7) {
      full_step.reset_output();
      full_wrapper.run(full_step);
      const Result result = full_step.collect(true);
      if (full_result.out.empty()) full_result = result;
      expect_same_bits(full_data, result, full_result, "full");
    } else {
      step.reset_output();
      window_wrapper.run(step);
      const Result result = step.collect(true);
      if (window_result.out.empty()) window_result = result;
      expect_same_bits(window_data, result, window_result, "windows");
    }
  }
  expect_right(window_data, window_result);
  expect_right(full_data, full_result);
}

TARGET_TEST(determinism, edge28_plans_and_runs_back_to_back) {
  Case first;
  first.name = "edge28";
  first.num_qo_heads = 1;
  first.num_kv_heads = 1;
  first.head_dim = 8;
  first.q_lengths =
      target.slow ? std::vector<std::int64_t>{10, 90} : std::vector<std::int64_t>{100, 900};
  Case second = first;
  std::swap(second.q_lengths[0], second.q_lengths[1]);
  const Data first_data = make_data(first, DType::bf16);
  const Data second_data = make_data(second, DType::bf16);
  const Result first_result = execute(target, first_data);
  const Result second_result = execute(target, second_data);
  expect_right(first_data, first_result);
  expect_right(second_data, second_result);

  Step first_step(first_data, *target.memory, Poison::nan);
  Step second_step(second_data, *target.memory, Poison::nan);
  AnyWrapper wrapper(first, wrapper_options(target, first, DType::bf16));
  const int rounds = target.narrowed || target.slow ? 20 : 1000;
  for (int i = 0; i < rounds && !::testing::Test::HasFailure(); ++i) {
    wrapper.plan(first_step);
    wrapper.run(first_step);
    wrapper.plan(second_step);
    wrapper.run(second_step);
    if (i % 100 != rounds % 100) continue;
    expect_same_bits(first_data, first_step.collect(true), first_result, "first layout");
    expect_same_bits(second_data, second_step.collect(true), second_result, "second layout");
    first_step.reset_output();
    second_step.reset_output();
  }
}

TARGET_TEST(determinism, edge33_plan_on_one_thread_run_on_another) {
  const Case c = sample_cases(target).front();
  const Data data = make_data(c, DType::bf16);
  Step step(data, *target.memory, Poison::nan);
  AnyWrapper wrapper(c, wrapper_options(target, c, DType::bf16));
  test_thread([&] { wrapper.plan(step); }).join();
  test_thread([&] { wrapper.run(step); }).join();
  expect_right(data, step.collect(true));
}

TARGET_TEST(determinism, wrappers_on_their_own_threads) {
  const std::vector<Case> cases = sample_cases(target);
  const DType dtype = sample_dtypes(target).back();
  std::vector<Data> data;
  std::vector<Result> alone;
  for (const Case& c : cases) {
    data.push_back(make_data(c, dtype));
    alone.push_back(execute(target, data.back()));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    threads.push_back(test_thread([&, i] {
      Step step(data[i], *target.memory, Poison::nan);
      AnyWrapper wrapper(cases[i], wrapper_options(target, cases[i], dtype));
      for (int round = 0; round < 10; ++round) {
        wrapper.plan(step);
        wrapper.run(step);
        expect_same_bits(data[i], step.collect(true), alone[i], cases[i].name);
        step.reset_output();
      }
    }));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ragged::test
