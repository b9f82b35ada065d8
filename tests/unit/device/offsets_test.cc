// Offsets that only the device reads: the same table as from the host's, and the same words where
// they are wrong.

#include <array>
#include <cstring>

#include "device/place.hpp"
#include "plan_runner_device.hpp"
#include "support.hpp"

namespace ragged {
namespace {

using device::OffsetFault;
using test::HostTable;
using test::Random;
using test::RandomStep;
using test::TableBackend;

constexpr Device kGpu = {DeviceKind::cuda, 0};
const detail::OffsetNames kNames = {"q_cu_seqlens", "kv_cu_seqlens", "prefix_cu_seqlens"};

// Entries `stride` apart, as a tensor on a device would hold them; between them lie others.
class Entries {
 public:
  Entries(const Layout& layout, IndexType type, std::int64_t stride)
      : type_(type), stride_(stride) {
    std::vector<std::int64_t> values(layout.begins(), layout.begins() + layout.num_segments() + 1);
    assign(values);
  }
  Entries(const std::vector<std::int64_t>& values, IndexType type) : type_(type) { assign(values); }

  [[nodiscard]] IndexView view() const { return {bytes_.data(), type_, count_, stride_, kGpu}; }

 private:
  void assign(const std::vector<std::int64_t>& values) {
    const std::size_t size = type_ == IndexType::int64 ? 8 : 4;
    count_ = std::ssize(values);
    // Nothing behind the last entry, so that a sanitizer sees a read beyond it.
    bytes_.assign(size * static_cast<std::size_t>((count_ - 1) * stride_ + 1), std::byte{0x5a});
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::byte* const to = bytes_.data() + size * i * static_cast<std::size_t>(stride_);
      const auto narrow = static_cast<std::int32_t>(values[i]);
      std::memcpy(to, type_ == IndexType::int64 ? static_cast<const void*>(&values[i]) : &narrow,
                  size);
    }
  }

  IndexType type_;
  std::int64_t stride_ = 1;
  std::int64_t count_ = 0;
  std::vector<std::byte> bytes_;
};

TEST(DeviceOffsets, GiveTheTableOfTheHosts) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const RandomStep step = test::random_step(random, false);
    const std::int64_t slots = random.integer(0, 200);
    const auto type = random.chance(50) ? IndexType::int32 : IndexType::int64;
    const std::int64_t stride = random.integer(1, 3);
    const auto shape = device::table_shape(step.tiles, step.layouts.q.num_segments(),
                                           step.layouts.q.total_tokens(), true, slots, 1);
    HostTable known(shape);
    const TableBackend backend(step.tiles);
    known.make(test::plan_with(backend, step.problem, step.layouts), {}, slots);

    const Entries q(step.layouts.q, type, stride);
    const Entries kv(step.layouts.keys(), type, stride);
    const Entries prefix(step.layouts.prefix, type, stride);
    StepLayouts unread;
    unread.kv_is_q = step.layouts.kv_is_q;
    const auto leave = [](Layout& layout, const Layout& as, const Entries& entries) {
      layout.assign_unread(entries.view(), "cu_seqlens", as.total_tokens());
    };
    leave(unread.q, step.layouts.q, q);
    if (!unread.kv_is_q) leave(unread.kv, step.layouts.kv, kv);
    if (step.problem.two_sources) leave(unread.prefix, step.layouts.prefix, prefix);
    HostTable read(shape);
    StageArguments arguments;
    arguments.q = q.view();
    arguments.kv = kv.view();
    arguments.prefix = prefix.view();
    const Plan plan = test::plan_with(backend, step.problem, unread);
    EXPECT_EQ(plan.num_units, 0);
    read.make(plan, arguments, slots);

    ASSERT_EQ(read.header().fault, OffsetFault::none);
    ASSERT_EQ(read.num_entries(), known.num_entries());
    ASSERT_EQ(std::memcmp(read.args.units, known.args.units,
                          static_cast<std::size_t>(known.num_entries()) * sizeof(device::Unit)),
              0);
    ASSERT_EQ(std::memcmp(&read.header(), &known.header(), sizeof(device::TableHeader)), 0);
  }
}

Problem cross() {
  Problem problem;
  problem.kind = AttentionKind::cross;
  problem.num_qo_heads = problem.num_kv_heads = 2;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  return problem;
}

TileTable one_rule() {
  TileTable tiles;
  tiles.num_rules = 1;
  tiles.rules[0].tile = {.q_rows = 16, .kv_rows = 16, .unit_rows = 16};
  return tiles;
}

// What a cross step of these offsets is told, with at most `most` rows on either side.
struct Told {
  device::FaultReport report;
  std::int64_t units = 0;
  std::string text;
};
Told told(const std::vector<std::int64_t>& q, const std::vector<std::int64_t>& kv,
          std::int64_t most, ErrorCode code, const WrapperOptions& options = {}) {
  const Entries q_entries(q, IndexType::int64);
  const Entries kv_entries(kv, IndexType::int32);
  StepLayouts layouts;
  layouts.q.assign_unread(q_entries.view(), "q_cu_seqlens", most);
  layouts.kv.assign_unread(kv_entries.view(), "kv_cu_seqlens", most);
  HostTable table(device::table_shape(one_rule(), std::ssize(q) - 1, 64, true, 0, 2));
  StageArguments arguments;
  arguments.q = q_entries.view();
  arguments.kv = kv_entries.view();
  table.make(test::plan_with(TableBackend(one_rule()), cross(), layouts), arguments);
  EXPECT_EQ(table.num_entries(), 0);
  EXPECT_EQ(table.report.count, 1);
  EXPECT_EQ(table.report.current, 1);
  const std::string text =
      test::refusal(code, [&] { throw detail::fault_error(table.report, kNames, options); });
  return {table.report, table.num_entries(), text};
}

// The words of a host layout for the same offsets.
std::string host_words(const std::vector<std::int64_t>& values, std::string_view name) {
  Layout layout;
  return test::refusal(ErrorCode::invalid_argument, [&] { layout.assign_offsets(values, name); });
}

TEST(DeviceOffsets, WrongOnesAreNamedAsOnTheHost) {
  const std::vector<std::int64_t> right = {0, 4, 8, 9};
  const std::vector<std::vector<std::int64_t>> wrong = {
      {0, 12, 8, 16}, {100, 102, 103, 104}, {0, -1, 4, 5}, {0, 5, 9, 8}, {-3, 0, 1, 2}};
  for (const std::vector<std::int64_t>& values : wrong) {
    EXPECT_EQ(told(values, right, 50, ErrorCode::invalid_argument).text,
              host_words(values, "q_cu_seqlens"));
    EXPECT_EQ(told(right, values, 50, ErrorCode::invalid_argument).text,
              host_words(values, "kv_cu_seqlens"));
  }
  // The first argument first, the first entry of it first, falls before ceilings.
  EXPECT_EQ(told({0, 3, 2, 1}, {0, 2, 1, 0}, 50, ErrorCode::invalid_argument).text,
            "q_cu_seqlens[2] = 2 is less than q_cu_seqlens[1] = 3");
  EXPECT_EQ(told({0, 3, 4, 70}, {0, 2, 1, 0}, 50, ErrorCode::invalid_argument).text,
            "kv_cu_seqlens[2] = 1 is less than kv_cu_seqlens[1] = 2");
}

TEST(DeviceOffsets, CeilingsAreNamedWithCountAndCeiling) {
  const std::vector<std::int64_t> right = {0, 4, 8};
  WrapperOptions options;
  options.max_total_tokens = 8;
  EXPECT_EQ(told({0, 4, 9}, right, 8, ErrorCode::out_of_range, options).text,
            "q_cu_seqlens: 9 tokens exceed max_total_tokens = 8");
  EXPECT_EQ(told(right, {0, 4, 9}, 8, ErrorCode::out_of_range, options).text,
            "kv_cu_seqlens: 9 key tokens exceed max_total_tokens = 8");
  options.max_total_kv_tokens = 8;
  EXPECT_EQ(told(right, {0, 4, 9}, 8, ErrorCode::out_of_range, options).text,
            "kv_cu_seqlens: 9 key tokens exceed max_total_kv_tokens = 8");
  EXPECT_EQ(
      told({0, 4, std::int64_t{1} << 40}, right, kMostDeviceRows, ErrorCode::out_of_range).text,
      "q_cu_seqlens[2] = 1099511627776 is more than the largest offset on a GPU, 2147483647");
  // 2 segments and 64 tokens make at most 6 units of 16 rows in this table.
  EXPECT_EQ(told({0, 500, 1000}, right, 2000, ErrorCode::out_of_range).text,
            "the step has 64 work units; without max_total_tokens, offsets on a device may make 6");
}

TEST(DeviceOffsets, ARightStepAfterAWrongOneClearsTheReport) {
  const TableBackend backend(one_rule());
  HostTable table(device::table_shape(one_rule(), 2, 64, true, 0, 2));
  const auto make = [&](const std::vector<std::int64_t>& q) {
    const Entries entries(q, IndexType::int32);
    StepLayouts layouts;
    layouts.q.assign_unread(entries.view(), "q", 64);
    layouts.kv = layouts.q;
    StageArguments arguments;
    arguments.q = arguments.kv = entries.view();
    table.make(test::plan_with(backend, cross(), layouts), arguments);
  };
  make({0, 2, 1});
  EXPECT_EQ(table.report.current, 1);
  make({0, 2, 4});
  EXPECT_EQ(table.report.current, 0);
  EXPECT_EQ(table.report.count, 1);
  EXPECT_EQ(table.num_entries(), 2);
  make({1, 2, 4});
  EXPECT_EQ(table.report.count, 2);
}

TEST(DeviceOffsets, AViewThatIsWrongIsRefusedAtOnce) {
  const std::vector<std::int32_t> values = {0, 4};
  const auto refused = [&](const IndexView& view) {
    Layout layout;
    return test::refusal(ErrorCode::invalid_argument,
                         [&] { layout.assign_unread(view, "cu_seqlens", 10); });
  };
  EXPECT_EQ(refused({values.data(), IndexType::int32, 2}),
            "cu_seqlens must be on a device to be read there; got host memory");
  EXPECT_EQ(refused({values.data(), IndexType::int32, 0, 1, kGpu}),
            "cu_seqlens must have at least 1 entry; got 0");
  EXPECT_EQ(refused({nullptr, IndexType::int32, 2, 1, kGpu}),
            "cu_seqlens has 2 entries but its data is null");
  const auto* const off = reinterpret_cast<const std::byte*>(values.data()) + 1;
  EXPECT_EQ(refused({off, IndexType::int32, 1, 1, kGpu}),
            "cu_seqlens must be aligned to 4 bytes; its address is 1 past a multiple");
}

TEST(DeviceOffsets, NeedABackendThatPlansOnTheDevice) {
  const std::vector<std::int32_t> values = {0, 4};
  StepLayouts layouts;
  layouts.kv_is_q = true;
  layouts.q.assign_unread({values.data(), IndexType::int32, 2, 1, kGpu}, "cu_seqlens", 10);
  Problem problem = cross();
  problem.kind = AttentionKind::self;
  EXPECT_EQ(
      test::refusal(ErrorCode::unsupported,
                    [&] { test::plan_with(TableBackend(one_rule(), false), problem, layouts); }),
      "backend sm80 plans from offsets on the host; these are on a device");
  const Plan plan = test::plan_with(TableBackend(one_rule()), problem, layouts);
  EXPECT_FALSE(plan.layouts.known());
  EXPECT_EQ(plan.layouts.q.num_segments(), 1);
  EXPECT_EQ(plan.layouts.q.max_tokens(), 10);
  EXPECT_EQ(plan.waste().rows_computed, 0);
}

// Nothing but the number of segments is known: what the tensors and the views must bring for that.
TEST(DeviceOffsets, StageAndRunAskForWhatTheyCanKnow) {
  const std::vector<std::int32_t> values = {0, 4};
  StepLayouts layouts;
  layouts.kv_is_q = true;
  layouts.q.assign_unread({values.data(), IndexType::int32, 2, 1, kGpu}, "cu_seqlens", 10);
  Problem problem = cross();
  problem.kind = AttentionKind::self;
  problem.dtype = DType::bf16;
  const TableBackend backend(one_rule());
  const Plan plan = test::plan_with(backend, problem, layouts);
  alignas(256) std::array<std::byte, 256> memory{};
  StageArguments staged;
  staged.table = {memory.data(), memory.size()};
  const auto refused = [](auto&& action) {
    return test::refusal(ErrorCode::invalid_argument, action);
  };
  EXPECT_EQ(refused([&] { stage(plan, staged); }), "q has 0 entries; the plan has 2");
  staged.q = {values.data(), IndexType::int32, 1, 1};
  EXPECT_EQ(refused([&] { stage(plan, staged); }), "q has 1 entries; the plan has 2");
  staged.q = {values.data(), IndexType::int32, 2, 1, {DeviceKind::cuda, 1}};
  EXPECT_EQ(refused([&] { stage(plan, staged); }), "q is on cuda:1; the plan is for cpu");

  RunArguments arguments;
  arguments.table = staged.table;
  arguments.q = arguments.k = arguments.v = arguments.out =
      TensorView::packed(memory.data(), DType::bf16, 1, 2, 64);
  run(plan, arguments);
  arguments.k.data = nullptr;
  EXPECT_EQ(refused([&] { run(plan, arguments); }), "k has no data (null); the plan needs 1 rows");
}

TEST(DeviceSteps, BeyondThirtyTwoBitsAreRefusedByName) {
  StepLayouts layouts;
  layouts.kv_is_q = true;
  layouts.q = test::layout_of({std::int64_t{1} << 31});
  Problem problem = cross();
  problem.kind = AttentionKind::self;
  EXPECT_EQ(test::refusal(ErrorCode::out_of_range,
                          [&] { test::plan_with(TableBackend(one_rule()), problem, layouts); }),
            "q has 2147483648 rows; a step on a GPU has at most 2147483647");
}

TEST(DeviceSteps, MoreItemsThanKernelsCountAreRefused) {
  EXPECT_EQ(device::table_shape(one_rule(), 4, 1 << 20, true, 0, 64).max_units, (1 << 16) + 4);
  EXPECT_EQ(
      test::refusal(ErrorCode::out_of_range,
                    [] { device::table_shape(one_rule(), 4, 1 << 30, true, 0, 16); }),
      "a step of 4 segments and 1073741824 tokens may have 1073741888 work items; on a GPU it "
      "has at most 536870912");
  // Without a bound, a table for 2^19 units beyond one for each segment.
  EXPECT_EQ(device::table_shape(one_rule(), 4, kMostDeviceRows, false, 0, 16).max_units,
            (1 << 19) + 4);
}

}  // namespace
}  // namespace ragged
