// Plans and runs back to back, without waiting, behind a kernel that holds the stream (edge case
// 28): every run sees its own layout, and the host goes on.

#include <gtest/gtest.h>

#include <chrono>

#include "backends/check.hpp"
#include "gpu/cuda_support.hpp"
#include "gpu/layouts.hpp"
#include "gpu/static_tensors.hpp"

namespace ragged::test {
namespace {

// The kernel before the plans, in milliseconds.
constexpr double kBusy = 100.0;
// A stream holds about a thousand launches; further ones make the host wait, whoever starts them.
constexpr int kLaunchesAhead = 800;

Case case_of(std::vector<std::int64_t> lengths) {
  Case c;
  c.name = "edge28";
  c.num_qo_heads = 1;
  c.num_kv_heads = 1;
  c.head_dim = 64;
  c.q_lengths = std::move(lengths);
  c.sampled_rows = 200;
  return c;
}

// Planned and run in turn; every run writes rows of its own.
struct Sides {
  Case cases[2];
  Data data[2];
  Result eager[2];

  Sides(const Target& target, const Case& a, const Case& b)
      : cases{a, b},
        data{make_data(a, DType::bf16), make_data(b, DType::bf16)},
        eager{eager_result(target, data[0]), eager_result(target, data[1])} {
    expect_right(data[0], eager[0]);
    expect_right(data[1], eager[1]);
  }
};

// `rounds` of plan A, run, plan B, run, of so many launches each; the first of them must be through
// while the kernel before them still runs.
void expect_every_run_its_own(const Target& target, const Sides& sides, bool capacity, int rounds,
                              int launches) {
  const std::int64_t rows = sides.data[0].q_begin.back();
  ASSERT_EQ(rows, sides.data[1].q_begin.back());
  const std::int64_t width = std::int64_t{sides.cases[0].num_qo_heads} * sides.cases[0].head_dim;
  const auto run_bytes = static_cast<std::size_t>(rows * width * 2);
  const Buffer out = target.memory->allocate(2 * static_cast<std::size_t>(rounds) * run_bytes, 16);

  Family family = {"edge28", {std::ssize(sides.cases[0].q_lengths), rows, 0}, {sides.cases[0]}};
  const WrapperOptions options = capacity ? capacity_options(target, family, DType::bf16)
                                          : wrapper_options(target, sides.cases[0], DType::bf16);
  AnyWrapper wrapper(sides.cases[0], options);
  StaticTensors tensors(sides.cases[0], DType::bf16, family.ceilings, *target.memory);
  StaticTensors other(sides.cases[0], DType::bf16, family.ceilings, *target.memory);
  tensors.load(sides.data[0]);
  other.load(sides.data[1]);
  const HostOffsets offsets[2] = {HostOffsets(sides.cases[0]), HostOffsets(sides.cases[1])};
  const CudaStream stream;
  const auto go = [&](int run) {
    const int side = run % 2;
    wrapper.plan(sides.cases[side], offsets[side].views(), stream.handle());
    RunArguments arguments = (side == 0 ? tensors : other).arguments();
    arguments.stream = stream.handle();
    arguments.lse = {};
    arguments.out.data = out.data() + static_cast<std::size_t>(run) * run_bytes;
    arguments.out.shape[0] = rows;
    wrapper.run(sides.cases[side], arguments);
  };
  // Whatever is loaded or allocated at first use is not what is tested.
  go(0);
  go(1);
  stream.synchronize();

  const auto start = std::chrono::steady_clock::now();
  spin(stream, kBusy);
  const int ahead = 2 * std::min(rounds, kLaunchesAhead / launches);
  for (int run = 0; run < ahead; ++run) go(run);
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  EXPECT_FALSE(stream.idle()) << "the host waited for the stream: " << ms << " ms";
  EXPECT_LT(ms, kBusy) << "the host waited for the stream";
  for (int run = ahead; run < 2 * rounds; ++run) go(run);
  stream.synchronize();

  std::vector<std::uint16_t> got(2 * static_cast<std::size_t>(rounds) * run_bytes / 2);
  target.memory->download(got.data(), out.data(), got.size() * 2);
  const auto per_run = static_cast<std::size_t>(rows * width);
  for (int run = 0; run < 2 * rounds; ++run) {
    const Result& want = sides.eager[run % 2];
    for (std::size_t i = 0; i < per_run; ++i) {
      ASSERT_EQ(got[static_cast<std::size_t>(run) * per_run + i], want.out[i])
          << "run " << run << ", element " << i;
    }
  }
}

TARGET_TEST(staging, edge28_two_layouts_in_turn) {
  const Sides sides(target, case_of({100, 900}), case_of({900, 100}));
  for (const bool capacity : {false, true}) {
    SCOPED_TRACE(capacity ? "capacity mode" : "eager");
    expect_every_run_its_own(target, sides, capacity, 1000, 24);
  }
}

// Offsets that no kernel's parameters hold.
TARGET_TEST(staging, edge28_many_segments_in_turn) {
  std::vector<std::int64_t> rising;
  for (int i = 0; i < 9000; ++i) rising.push_back(i % 3);
  const std::vector<std::int64_t> falling(rising.rbegin(), rising.rend());
  const Sides sides(target, case_of(rising), case_of(falling));
  for (const bool capacity : {false, true}) {
    SCOPED_TRACE(capacity ? "capacity mode" : "eager");
    expect_every_run_its_own(target, sides, capacity, 200, 48);
  }
}

// Layouts that grow: what eager planning must make room for is not taken from what still runs.
TARGET_TEST(staging, layouts_that_grow_behind_a_busy_stream) {
  const CudaStream stream;
  std::vector<Data> data;
  std::vector<Result> eager;
  std::vector<std::unique_ptr<StaticTensors>> tensors;
  for (int i = 0; i < 8; ++i) {
    Case c = case_of(std::vector<std::int64_t>(std::size_t{1} << (i + 3), 3));
    data.push_back(make_data(c, DType::bf16));
    eager.push_back(eager_result(target, data.back()));
    const std::int64_t rows = data.back().q_begin.back();
    tensors.push_back(
        std::make_unique<StaticTensors>(c, DType::bf16, Ceilings{0, rows, rows}, *target.memory));
    tensors.back()->load(data.back());
  }
  AnyWrapper wrapper(data[0].c, wrapper_options(target, data[0].c, DType::bf16));
  spin(stream, 20.0);
  for (std::size_t i = 0; i < data.size(); ++i) {
    wrapper.plan(data[i].c, HostOffsets(data[i].c).views(), stream.handle());
    RunArguments arguments = tensors[i]->arguments();
    arguments.stream = stream.handle();
    wrapper.run(data[i].c, arguments);
  }
  stream.synchronize();
  for (std::size_t i = 0; i < data.size(); ++i) {
    SCOPED_TRACE("layout " + std::to_string(i));
    expect_same_bits(data[i], tensors[i]->collect(data[i]), eager[i], "behind a busy stream");
  }
}

}  // namespace
}  // namespace ragged::test
