// Streams, threads and devices: work goes to the tensors' device and the given stream, and two
// wrappers do not disturb each other (edge case 33).

#include <gtest/gtest.h>

#include "backends/check.hpp"
#include "backends/sample_cases.hpp"
#include "gpu/cuda_memory.hpp"
#include "gpu/cuda_support.hpp"
#include "gpu/layouts.hpp"
#include "gpu/static_tensors.hpp"
#include "support/threads.hpp"

namespace ragged::test {
namespace {

Ceilings exact_ceilings(const Data& data) {
  return {std::ssize(data.c.q_lengths), data.q_begin.back(),
          data.kv_begin.back() + data.prefix_begin.back()};
}

// Cases of the sample that StaticTensors can hold: no gaps, no strides.
std::vector<Case> plain_cases(const Target& target) {
  std::vector<Case> list;
  for (const Family& family : layout_families()) {
    const Case& c = family.cases.front();
    if (target.backend->declines(problem_of(c, DType::bf16), target.facts).empty()) {
      list.push_back(c);
    }
  }
  return list;
}

// One case planned and run on a stream of its own.
class OnStream {
 public:
  OnStream(const Target& target, const Case& c, DType dtype)
      : data_(make_data(c, dtype)),
        eager_(eager_result(target, data_)),
        tensors_(c, dtype, exact_ceilings(data_), *target.memory),
        wrapper_(c, wrapper_options(target, c, dtype)) {
    tensors_.load(data_);
  }
  void plan() { wrapper_.plan(data_.c, HostOffsets(data_.c).views(), stream_.handle()); }
  void run() {
    RunArguments arguments = tensors_.arguments();
    arguments.stream = stream_.handle();
    wrapper_.run(data_.c, arguments);
  }
  void reset() { tensors_.load(data_); }
  void expect_same(const std::string& what) {
    stream_.synchronize();
    expect_same_bits(data_, tensors_.collect(data_), eager_, what);
  }
  [[nodiscard]] const CudaStream& stream() const { return stream_; }

 private:
  Data data_;
  Result eager_;
  StaticTensors tensors_;
  AnyWrapper wrapper_;
  CudaStream stream_;
};

TARGET_TEST(streams, edge33_a_stream_of_its_own) {
  for (const Case& c : plain_cases(target)) {
    SCOPED_TRACE(c.name);
    OnStream one(target, c, DType::bf16);
    spin(one.stream(), 2.0);
    one.plan();
    one.run();
    one.expect_same("on a stream that does not wait for the default one");
  }
}

TARGET_TEST(streams, edge33_plan_on_one_thread_run_on_another) {
  for (const Case& c : plain_cases(target)) {
    SCOPED_TRACE(c.name);
    OnStream one(target, c, DType::bf16);
    test_thread([&] { one.plan(); }).join();
    test_thread([&] { one.run(); }).join();
    one.expect_same("planned and run on threads of their own");
  }
}

TARGET_TEST(streams, two_wrappers_at_once) {
  const std::vector<Case> cases = plain_cases(target);
  std::vector<std::unique_ptr<OnStream>> all;
  for (const Case& c : cases) {
    all.push_back(std::make_unique<OnStream>(target, c, DType::bf16));
    all.push_back(std::make_unique<OnStream>(target, c, DType::fp16));
  }
  // From one thread: all of them in flight together.
  for (int round = 0; round < 10; ++round) {
    for (auto& one : all) one->plan();
    for (auto& one : all) one->run();
  }
  for (auto& one : all) one->expect_same("beside other streams");
  // From a thread each.
  for (auto& one : all) one->reset();
  std::vector<std::thread> threads;
  for (auto& one : all) {
    threads.push_back(test_thread([&one] {
      for (int round = 0; round < 10; ++round) {
        one->plan();
        one->run();
      }
    }));
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& one : all) one->expect_same("beside other threads");
}

// The wrapper's scratch is used again and again: runs on one plan may follow each other at once.
TARGET_TEST(streams, runs_of_one_plan_overlap_in_nothing) {
  for (const Case& c : plain_cases(target)) {
    SCOPED_TRACE(c.name);
    OnStream one(target, c, DType::bf16);
    one.plan();
    for (int i = 0; i < 200; ++i) one.run();
    one.expect_same("after 200 runs at once");
  }
}

TARGET_TEST(streams, edge33_the_current_device_is_another) {
  const int count = num_cuda_devices();
  if (count < 2) GTEST_SKIP() << "needs two GPUs; this machine has " << count;
  Target other = target;
  other.memory = &cuda_memory(1);
  other.facts = DeviceFacts::of({DeviceKind::cuda, 1});
  ASSERT_TRUE(other.facts.present) << other.facts.absence;
  for (const Case& c : plain_cases(target)) {
    SCOPED_TRACE(c.name);
    const Data data = make_data(c, DType::bf16);
    const Result want = eager_result(target, data);
    check(cudaSetDevice(0), "the current device");
    expect_same_bits(data, eager_result(other, data), want, "on cuda:1 while cuda:0 is current");
    int current = -1;
    check(cudaGetDevice(&current), "the current device");
    EXPECT_EQ(current, 0) << "the current device was changed";
  }
}

}  // namespace
}  // namespace ragged::test
