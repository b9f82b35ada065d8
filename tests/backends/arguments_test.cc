// What plan and run refuse, and that the text says which argument, what was expected and what came
// (edge cases 26, 27).

#include <gtest/gtest.h>

#include <cmath>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "backends/refusal.hpp"

namespace ragged::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;

Case small_case() {
  Case c;
  c.name = "arguments";
  c.num_qo_heads = 4;
  c.num_kv_heads = 2;
  c.q_lengths = {6, 4};
  return c;
}

TARGET_TEST(arguments, edge26_offsets) {
  RaggedPrefillWrapper self(wrapper_options(target, small_case(), DType::bf16));
  expect_refused([&] { self.plan({0, 12, 8, 16}); }, kInvalid, {"cu_seqlens[2]", "8", "12"});
  expect_refused([&] { self.plan({100, 102}); }, kInvalid, {"cu_seqlens[0]", "100"});
  expect_refused([&] { self.plan({0, 4, -1}); }, kInvalid, {"cu_seqlens[2]", "-1", "4"});
  expect_refused([&] { self.plan({-3, 4}); }, kInvalid, {"cu_seqlens[0]", "-3"});
  expect_refused([&] { self.plan(IndexView()); }, kInvalid, {"cu_seqlens"});
  EXPECT_FALSE(self.planned());

  RaggedCrossPrefillWrapper cross(wrapper_options(target, small_case(), DType::bf16));
  expect_refused([&] { cross.plan({0, 5}, {0, 7, 3}); }, kInvalid, {"kv_cu_seqlens[2]", "3", "7"});
  expect_refused([&] { cross.plan({0, 5, 1}, {0, 7, 9}); }, kInvalid, {"q_cu_seqlens[2]"});
  expect_refused([&] { cross.plan({0, 5}, {0, 7, 9}); }, kInvalid, {"1", "2"});

  PrefixedPrefillWrapper prefixed(wrapper_options(target, small_case(), DType::bf16));
  expect_refused([&] { prefixed.plan_two_sources({0, 5}, {0, 7, 9}); }, kInvalid, {"1", "2"});
  expect_refused(
      [&] {
        prefixed.plan_two_sources({0, 5}, {1, 7});
      },
      kInvalid, {"prefix_cu_seqlens[0]", "1"});
}

TARGET_TEST(arguments, spans_that_overlap) {
  RaggedPrefillWrapper self(wrapper_options(target, small_case(), DType::bf16));
  const std::vector<std::int64_t> starts = {0, 10, 4};
  const std::vector<std::int64_t> lengths = {5, 3, 3};
  expect_refused([&] { self.plan(SegmentSpans{starts, lengths}); }, kInvalid, {"2", "4", "5"});
  const std::vector<std::int64_t> fewer = {5, 3};
  expect_refused([&] { self.plan(SegmentSpans{starts, fewer}); }, kInvalid, {"3", "2"});
}

TARGET_TEST(arguments, spans_in_any_order) {
  // The segments of one layout, declared backwards.
  const Data data = make_data(small_case(), DType::fp32);
  Step step(data, *target.memory, Poison::nan);
  RaggedPrefillWrapper self(wrapper_options(target, small_case(), DType::fp32));
  const std::vector<std::int64_t> starts = {6, 0};
  const std::vector<std::int64_t> lengths = {4, 6};
  self.plan(SegmentSpans{starts, lengths});
  const RunArguments a = step.arguments(true);
  self.run(a.q, a.k, a.v, a.out, a.lse);
  expect_same_bits(data, step.collect(true), execute(target, data), "declared backwards");
}

TARGET_TEST(arguments, edge27_tensors_of_too_few_rows) {
  Case c = small_case();
  c.kind = AttentionKind::cross;
  c.kv_lengths = {12, 8};
  const Data data = make_data(c, DType::bf16);
  Step step(data, *target.memory, Poison::nan);
  RaggedCrossPrefillWrapper cross(wrapper_options(target, c, DType::bf16));
  cross.plan(step.q_side().cu_seqlens.view(), step.kv_side().cu_seqlens.view());
  const RunArguments a = step.arguments(true);
  const auto with_rows = [](TensorView tensor, std::int64_t rows) {
    tensor.shape[0] = rows;
    return tensor;
  };
  LseView short_lse = a.lse;
  short_lse.shape[0] = 9;
  expect_refused([&] { cross.run(a.q, with_rows(a.k, 17), a.v, a.out); }, kInvalid,
                 {"k", "17", "20"});
  expect_refused([&] { cross.run(a.q, a.k, with_rows(a.v, 17), a.out); }, kInvalid,
                 {"v", "17", "20"});
  expect_refused([&] { cross.run(with_rows(a.q, 9), a.k, a.v, a.out); }, kInvalid,
                 {"q", "9", "10"});
  expect_refused([&] { cross.run(a.q, a.k, a.v, with_rows(a.out, 9)); }, kInvalid,
                 {"out", "9", "10"});
  expect_refused([&] { cross.run(a.q, a.k, a.v, a.out, short_lse); }, kInvalid, {"lse", "9", "10"});
  // Nothing was written by what was refused.
  EXPECT_TRUE(std::isnan(out_value(data, step.collect(true), 0, 0, 0, 0)));
}

// Every tensor in turn, with one thing about it changed.
TARGET_TEST(arguments, tensors_that_do_not_fit_the_plan) {
  const Data data = make_data(small_case(), DType::bf16);
  Step step(data, *target.memory, Poison::nan);
  RaggedPrefillWrapper self(wrapper_options(target, small_case(), DType::bf16));
  const RunArguments whole = step.arguments(true);
  expect_refused([&] { self.run(whole.q, whole.k, whole.v, whole.out); }, ErrorCode::not_planned,
                 {});
  self.plan(step.q_side().cu_seqlens.view());
  struct Tensor {
    std::string name;
    TensorView RunArguments::*member;
  };
  for (const Tensor& tensor : {Tensor{"q", &RunArguments::q}, Tensor{"k", &RunArguments::k},
                               Tensor{"v", &RunArguments::v}, Tensor{"out", &RunArguments::out}}) {
    SCOPED_TRACE(tensor.name);
    const auto expect = [&](const std::vector<std::string>& parts, const auto& change) {
      RunArguments a = whole;
      change(a.*tensor.member);
      std::vector<std::string> all = {tensor.name};
      all.insert(all.end(), parts.begin(), parts.end());
      expect_refused([&] { self.run(a.q, a.k, a.v, a.out, a.lse); }, kInvalid, all);
    };
    const std::int64_t heads = (whole.*tensor.member).shape[1];
    expect({"heads", "3", std::to_string(heads)}, [](TensorView& t) { t.shape[1] = 3; });
    expect({"head_dim", "72", "64"}, [](TensorView& t) { t.shape[2] = 72; });
    expect({"dtype", "fp16", "bf16"}, [](TensorView& t) { t.dtype = DType::fp16; });
    expect({"stride", "1", "2"}, [](TensorView& t) { t.strides[2] = 2; });
    expect({"null"}, [](TensorView& t) { t.data = nullptr; });
    expect({"align"}, [](TensorView& t) { t.data = static_cast<char*>(t.data) + 1; });
    expect({"cuda:3"}, [](TensorView& t) { t.device = {DeviceKind::cuda, 3}; });
  }
  LseView lse = whole.lse;
  lse.shape[1] = 3;
  expect_refused([&] { self.run(whole.q, whole.k, whole.v, whole.out, lse); }, kInvalid,
                 {"lse", "3", "4"});
  EXPECT_TRUE(std::isnan(out_value(data, step.collect(true), 0, 0, 0, 0)));
  self.run(whole.q, whole.k, whole.v, whole.out, whole.lse);
  expect_right(data, step.collect(true));
}

TARGET_TEST(arguments, prefixed_run_of_the_other_form) {
  Case c = small_case();
  c.kind = AttentionKind::prefixed;
  c.prefix_lengths = {3, 0};
  const Data data = make_data(c, DType::bf16);
  Step step(data, *target.memory, Poison::nan);
  const RunArguments a = step.arguments(false);
  PrefixedPrefillWrapper prefixed(wrapper_options(target, c, DType::bf16));
  prefixed.plan_two_sources({0, 6, 10}, {0, 3, 3});
  EXPECT_THROW(prefixed.run(a.q, a.k, a.v, a.out), Error);
  prefixed.plan({0, 6, 10}, {0, 6, 10});
  EXPECT_THROW(prefixed.run_two_sources(a.q, a.prefix_k, a.prefix_v, a.k, a.v, a.out), Error);
}

// Rows that a tensor has beyond the plan are allowed; strides may repeat a row.
TARGET_TEST(arguments, a_row_repeated_by_stride_0) {
  Case c = small_case();
  Data data = make_data(c, DType::fp32);
  const auto width = static_cast<std::size_t>(c.num_qo_heads * c.head_dim);
  for (std::size_t i = width; i < data.q.size(); ++i) data.q[i] = data.q[i % width];
  Step step(data, *target.memory, Poison::nan);
  RaggedPrefillWrapper self(wrapper_options(target, c, DType::fp32));
  self.plan(step.q_side().cu_seqlens.view());
  RunArguments a = step.arguments(true);
  a.q.strides[0] = 0;
  self.run(a.q, a.k, a.v, a.out, a.lse);
  expect_right(data, step.collect(true));
}

}  // namespace
}  // namespace ragged::test
