// Offsets that lie in the GPU's memory: planned there, without waiting, to the same bits; what is
// wrong with them is reported later, and nothing is read or written out of bounds meanwhile (edge
// cases 8, 26).

#include <gtest/gtest.h>

#include "backends/check.hpp"
#include "backends/refusal.hpp"
#include "backends/target_tests.hpp"
#include "gpu/cuda_support.hpp"
#include "gpu/layouts.hpp"
#include "gpu/static_tensors.hpp"

namespace ragged::test {
namespace {

constexpr IndexForm kForms[] = {IndexForm::int32, IndexForm::int64, IndexForm::strided_int32,
                                IndexForm::strided_int64};

// Each layout of a family in each form, on one wrapper in capacity mode and on an eager one.
void same_bits_from_device_offsets(const Target& target, const Family& family) {
  const DType dtype = DType::bf16;
  if (!target.backend->declines(problem_of(family.cases.front(), dtype), target.facts).empty()) {
    GTEST_SKIP() << target.name << " declines " << family.name;
  }
  const CudaStream stream;
  StaticTensors tensors(family.cases.front(), dtype, family.ceilings, *target.memory);
  RunArguments arguments = tensors.arguments();
  arguments.stream = stream.handle();
  AnyWrapper captured(family.cases.front(), capacity_options(target, family, dtype));
  int form = 0;
  for (const Case& c : family.cases) {
    const Data data = make_data(c, dtype);
    const Result want = eager_result(target, data);
    const DeviceOffsets offsets(c, kForms[form++ % 4], *target.memory);
    AnyWrapper eager(c, wrapper_options(target, c, dtype));
    for (AnyWrapper* wrapper : {&captured, &eager}) {
      SCOPED_TRACE(wrapper == &eager ? "eager" : "capacity mode");
      tensors.load(data);
      wrapper->plan(c, offsets.views(), stream.handle());
      wrapper->run(c, arguments);
      stream.synchronize();
      expect_same_bits(data, tensors.collect(data), want, "offsets on the device");
    }
  }
}

TARGET_TEST(device_offsets, planning_does_not_wait) {
  const Family family = layout_families().front();
  const Case& c = family.cases.front();
  const Data data = make_data(c, DType::bf16);
  const CudaStream stream;
  StaticTensors tensors(c, DType::bf16, family.ceilings, *target.memory);
  tensors.load(data);
  RunArguments arguments = tensors.arguments();
  arguments.stream = stream.handle();
  const DeviceOffsets offsets(c, IndexForm::int32, *target.memory);
  AnyWrapper wrapper(c, capacity_options(target, family, DType::bf16));
  wrapper.plan(c, offsets.views(), stream.handle());
  wrapper.run(c, arguments);
  stream.synchronize();
  spin(stream, 100.0);
  for (int i = 0; i < 50; ++i) {
    wrapper.plan(c, offsets.views(), stream.handle());
    wrapper.run(c, arguments);
  }
  EXPECT_FALSE(stream.idle()) << "the host waited";
  stream.synchronize();
  expect_same_bits(data, tensors.collect(data), eager_result(target, data), "behind a busy stream");
}

// Offsets that are wrong, and what their report names.
struct Wrong {
  std::vector<std::int64_t> values;
  std::vector<std::string> parts;
  ErrorCode code = ErrorCode::invalid_argument;
};

std::vector<Wrong> wrong_offsets() {
  return {
      {{0, 12, 8, 16}, {"cu_seqlens[2]", "8", "12"}},
      {{100, 102, 103, 104}, {"cu_seqlens[0]", "100"}},
      {{0, 4, -1, 4}, {"cu_seqlens[2]", "-1", "4"}},
      {{0, 4, 6, 65}, {"65", "64"}, ErrorCode::out_of_range},
      {{0, 4, 6, 2'000'000'000}, {"2000000000", "64"}, ErrorCode::out_of_range},
      {{0, -2'000'000'000, 6, 8}, {"cu_seqlens[1]", "-2000000000"}},
  };
}

TARGET_TEST(device_offsets, edge26_wrong_ones_write_nothing_and_are_reported) {
  Case c;
  c.name = "edge26";
  c.num_qo_heads = c.num_kv_heads = 2;
  c.q_lengths = {4, 2, 10};
  const Family family = {"edge26", {3, 64, 0}, {c}};
  const Data data = make_data(c, DType::bf16);
  const Result want = eager_result(target, data);
  const CudaStream stream;
  StaticTensors tensors(c, DType::bf16, family.ceilings, *target.memory);
  RunArguments arguments = tensors.arguments();
  arguments.stream = stream.handle();
  AnyWrapper wrapper(c, capacity_options(target, family, DType::bf16));
  const HostOffsets right(c);
  Case nothing = c;
  nothing.q_lengths.clear();
  const Data untouched = make_data(nothing, DType::bf16);
  for (const IndexForm form : kForms) {
    for (const Wrong& wrong : wrong_offsets()) {
      SCOPED_TRACE(::testing::PrintToString(wrong.values));
      const DeviceIndex offsets(wrong.values, form, *target.memory);
      tensors.load(data);
      wrapper.plan(c, {offsets.view(), {}, {}}, stream.handle());
      try {
        wrapper.run(c, arguments);
      } catch (const Error& error) {
        // The device was done before the host came to it.
        EXPECT_EQ(error.code(), wrong.code) << error.what();
      }
      stream.synchronize();
      static_cast<void>(tensors.collect(untouched));  // every row is behind a layout of none
      expect_refused([&] { wrapper.check(stream.handle()); }, wrong.code, wrong.parts);
      expect_refused([&] { wrapper.run(c, arguments); }, wrong.code, wrong.parts);
      // Said; the wrapper goes on.
      wrapper.plan(c, right.views(), stream.handle());
      wrapper.run(c, arguments);
      wrapper.check(stream.handle());
      expect_same_bits(data, tensors.collect(data), want, "after wrong offsets");
    }
  }
}

TARGET_TEST(device_offsets, edge26_the_next_plan_reports_what_is_known) {
  Case c;
  c.name = "edge26_next";
  c.num_qo_heads = c.num_kv_heads = 2;
  c.q_lengths = {4, 2, 10};
  const CudaStream stream;
  AnyWrapper wrapper(c, wrapper_options(target, c, DType::bf16));
  const DeviceIndex offsets({0, 12, 8, 16}, IndexForm::int32, *target.memory);
  wrapper.plan(c, {offsets.view(), {}, {}}, stream.handle());
  stream.synchronize();
  const HostOffsets right(c);
  const auto plan = [&] { wrapper.plan(c, right.views(), stream.handle()); };
  expect_refused(plan, ErrorCode::invalid_argument, {"cu_seqlens[2]", "8", "12"});
  plan();
}

// The layout of few rows in a larger tensor, which is right.
TARGET_TEST(device_offsets, edge26_rows_behind_the_layout_are_left_alone) {
  Case c;
  c.name = "edge26_rows";
  c.q_lengths = {4, 2};
  const Data data = make_data(c, DType::bf16);
  const CudaStream stream;
  StaticTensors tensors(c, DType::bf16, {2, 10, 10}, *target.memory);
  tensors.load(data);
  RunArguments arguments = tensors.arguments();
  arguments.stream = stream.handle();
  const DeviceIndex offsets({0, 4, 6}, IndexForm::int64, *target.memory);
  AnyWrapper wrapper(c, wrapper_options(target, c, DType::bf16));
  wrapper.plan(c, {offsets.view(), {}, {}}, stream.handle());
  wrapper.run(c, arguments);
  wrapper.check(stream.handle());
  expect_same_bits(data, tensors.collect(data), eager_result(target, data), "6 of 10 rows");
}

void register_families(const Target& target) {
  for (const Family& family : layout_families()) {
    register_test(target, "device_offsets", "same_bits_" + family.name, __FILE__, __LINE__,
                  [&target, family] { same_bits_from_device_offsets(target, family); });
  }
}

[[maybe_unused]] const bool added = add_generated_tests(register_families);

}  // namespace
}  // namespace ragged::test
