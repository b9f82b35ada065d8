// What a run refuses before any backend sees the tensors, and the log.

#include <atomic>
#include <chrono>
#include <thread>

#include "support.hpp"

namespace ragged {
namespace {

using test::FakeBackend;
using test::pair_layouts;
using test::problem_of;
using test::refusal;
using test::Tensor;

// A cross-attention step of 10 query rows and 20 keys, with tensors that fit it.
class Run : public ::testing::Test {
 protected:
  Run() : q_(DType::bf16, 12, 4, 64), kv_(DType::bf16, 22, 2, 64), lse_(12 * 4) {
    backend_.tuning.workspace_bytes = 128;
    plan_ =
        test::plan_with(backend_, problem_of(AttentionKind::cross), pair_layouts({4, 6}, {19, 1}));
    arguments_.q = q_.view();
    arguments_.k = arguments_.v = kv_.view();
    arguments_.out = q_.view();
    arguments_.lse = LseView::packed(lse_.data(), 12, 4);
    arguments_.workspace = {scratch_, sizeof(scratch_)};
  }

  // The refusal after `spoil` changed the arguments; they are as before afterwards.
  template <typename Spoil>
  std::string spoiled(Spoil&& spoil) {
    const RunArguments before = arguments_;
    spoil(arguments_);
    const std::string text = refusal(ErrorCode::invalid_argument, [&] { run(plan_, arguments_); });
    arguments_ = before;
    return text;
  }

  FakeBackend backend_;
  Plan plan_;
  Tensor q_;
  Tensor kv_;
  std::vector<float> lse_;
  alignas(64) char scratch_[128] = {};
  RunArguments arguments_;
};

TEST_F(Run, TensorsThatFitRun) {
  run(plan_, arguments_);
  EXPECT_EQ(backend_.runs, 1);
  arguments_.lse = {};  // not asked for
  run(plan_, arguments_);
  EXPECT_EQ(backend_.runs, 2);
}

TEST_F(Run, RowsNameBothNumbers) {
  EXPECT_EQ(spoiled([](RunArguments& a) { a.q.shape[0] = 9; }), "q has 9 rows; the plan reads 10");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.k.shape[0] = 17; }),
            "k has 17 rows; the plan reads 20");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.v.shape[0] = 19; }),
            "v has 19 rows; the plan reads 20");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.out.shape[0] = 0; }),
            "out has 0 rows; the plan writes 10");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.lse.shape[0] = 9; }),
            "lse has 9 rows; the plan writes 10");
  EXPECT_EQ(backend_.runs, 0);
}

TEST_F(Run, ShapesAndTypesNameTheArgument) {
  EXPECT_EQ(spoiled([](RunArguments& a) { a.k.shape[1] = 4; }), "k has heads 4; the plan has 2");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.out.shape[2] = 32; }),
            "out has head_dim 32; the plan has 64");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.lse.shape[1] = 2; }),
            "lse has heads 2; the plan has 4");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.v.dtype = DType::fp16; }),
            "v has dtype fp16; the plan has bf16");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.q.strides[2] = 2; }),
            "q must have stride 1 in head_dim; got 2");
  EXPECT_EQ(spoiled([](RunArguments& a) {
              a.q.device = {DeviceKind::cuda, 1};
            }),
            "q is on cuda:1; the plan is for cpu");
  EXPECT_EQ(spoiled([](RunArguments& a) {
              a.lse.device = {DeviceKind::cuda, 0};
            }),
            "lse is on cuda:0; the plan is for cpu");
}

TEST_F(Run, PointersAreChecked) {
  EXPECT_EQ(spoiled([](RunArguments& a) { a.v.data = nullptr; }),
            "v has no data (null); the plan needs 20 rows");
  const auto past = [](void* data) { return static_cast<void*>(static_cast<char*>(data) + 1); };
  test::expect_text(spoiled([&](RunArguments& a) { a.k.data = past(a.k.data); }),
                    "k must be aligned to 2 bytes");
  test::expect_text(
      spoiled([&](RunArguments& a) { a.lse.data = static_cast<float*>(past(a.lse.data)); }),
      "lse must be aligned to 4 bytes");
  test::expect_text(spoiled([&](RunArguments& a) { a.workspace.data = past(a.workspace.data); }),
                    "workspace must be aligned to 64 bytes");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.workspace.bytes = 127; }),
            "workspace has 127 bytes; the plan needs 128");
  EXPECT_EQ(spoiled([](RunArguments& a) { a.workspace.data = nullptr; }),
            "workspace has 0 bytes; the plan needs 128");
  EXPECT_EQ(backend_.runs, 0);
}

TEST_F(Run, PrefixTensorsAreCheckedWithTwoSources) {
  Problem problem = problem_of(AttentionKind::prefixed);
  problem.two_sources = true;
  StepLayouts layouts = test::self_layouts({4, 6});
  layouts.prefix = test::layout_of({15, 8});
  plan_ = test::plan_with(backend_, problem, layouts);
  EXPECT_EQ(spoiled([](RunArguments&) {}), "prefix_k has 0 rows; the plan reads 23");
  const Tensor prefix(DType::bf16, 23, 2, 64);
  arguments_.prefix_k = prefix.view();
  EXPECT_EQ(spoiled([](RunArguments&) {}), "prefix_v has 0 rows; the plan reads 23");
  arguments_.prefix_v = prefix.view();
  run(plan_, arguments_);
  EXPECT_EQ(backend_.runs, 1);
}

TEST_F(Run, NoQueryRowsIsNothing) {
  plan_ = test::plan_with(backend_, problem_of(AttentionKind::cross), pair_layouts({0}, {5}));
  run(plan_, RunArguments());
  EXPECT_EQ(backend_.runs, 0);
}

TEST_F(Run, NoKeysNeedNoKeyData) {
  plan_ = test::plan_with(backend_, problem_of(AttentionKind::cross), pair_layouts({5}, {0}));
  arguments_.k = arguments_.v = TensorView::packed(nullptr, DType::bf16, 0, 2, 64);
  run(plan_, arguments_);
  EXPECT_EQ(backend_.runs, 1);
}

TEST_F(Run, TheBackendsOwnRefusalIsPassedOn) {
  backend_.tensor_refusal = "q's token stride must be a multiple of 8; got 3";
  EXPECT_EQ(spoiled([](RunArguments&) {}),
            "cpu declines: q's token stride must be a multiple of 8; got 3");
}

TEST_F(Run, WithoutAPlanOrItsMachine) {
  test::expect_text(refusal(ErrorCode::not_planned, [&] { run(Plan(), arguments_); }),
                    "run needs a plan");
  plan_.device = DeviceFacts::parse("h200");
  test::expect_text(refusal(ErrorCode::device, [&] { run(plan_, arguments_); }),
                    "the plan is for h200, which is not the machine");
}

TEST_F(Run, TheLogSeesEachRunBeforeItStarts) {
  int logged = 0;
  set_run_log([&](const RunRecord& record) {
    EXPECT_EQ(record.plan, &plan_);
    EXPECT_EQ(record.arguments, &arguments_);
    EXPECT_EQ(backend_.runs, logged);
    if (++logged == 2) set_run_log({});  // a callback may remove itself
  });
  for (int i = 0; i < 4; ++i) run(plan_, arguments_);
  EXPECT_EQ(logged, 2);
  EXPECT_EQ(backend_.runs, 4);
}

TEST_F(Run, TheLogMayChangeWhileOthersRun) {
  std::atomic<bool> stop{false};
  std::atomic<int> logged{0};
  std::thread runner([&] {
    while (!stop.load()) run(plan_, arguments_);
  });
  for (int i = 0; i < 200 || logged.load() == 0; ++i) {
    set_run_log([&](const RunRecord&) { logged.fetch_add(1); });
    if (i % 8 == 0) std::this_thread::yield();
    set_run_log({});
    if (i > 100) std::this_thread::sleep_for(std::chrono::microseconds(10));
    set_run_log([&](const RunRecord&) { logged.fetch_add(1); });
  }
  set_run_log({});
  stop.store(true);
  runner.join();
  EXPECT_GT(logged.load(), 0);
}

}  // namespace
}  // namespace ragged
