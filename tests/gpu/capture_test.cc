// One captured graph replays every layout within the ceilings, to the bits of eager; the order of
// plans does not matter (edge cases 8, 12, 23, 24, 25).

#include <gtest/gtest.h>

#include <set>

#include "backends/check.hpp"
#include "backends/refusal.hpp"
#include "backends/target_tests.hpp"
#include "gpu/cuda_support.hpp"
#include "gpu/layouts.hpp"
#include "gpu/static_tensors.hpp"

namespace ragged::test {
namespace {

std::vector<DType> dtypes_of(const Target& target, const Family& family) {
  std::vector<DType> list;
  for (const DType dtype : all_dtypes()) {
    const Problem problem = problem_of(family.cases.front(), dtype);
    if (target.backend->declines(problem, target.facts).empty()) list.push_back(dtype);
  }
  return list;
}

struct Planned {
  Data data;
  Result eager;
};

std::vector<Planned> eager_results(const Target& target, const Family& family, DType dtype) {
  std::vector<Planned> list;
  for (const Case& c : family.cases) {
    Data data = make_data(c, dtype);
    Result eager = eager_result(target, data);
    list.push_back({std::move(data), std::move(eager)});
  }
  return list;
}

std::size_t kernels_of(const TileTable& tiles) {
  std::set<std::int32_t> variants;
  for (int rule = 0; rule < tiles.num_rules; ++rule)
    variants.insert(tiles.rules[rule].tile.variant);
  return variants.size();
}

// Captures at layout `captured`, then plans and replays every layout, forwards and backwards.
void expect_replays(const Target& target, const Family& family, DType dtype, std::size_t captured) {
  const std::vector<Planned> steps = eager_results(target, family, dtype);
  const CudaStream stream;
  StaticTensors tensors(family.cases.front(), dtype, family.ceilings, *target.memory);
  AnyWrapper wrapper(family.cases.front(), capacity_options(target, family, dtype));
  RunArguments arguments = tensors.arguments();
  arguments.stream = stream.handle();
  const auto plan = [&](std::size_t i) {
    wrapper.plan(family.cases[i], HostOffsets(family.cases[i]).views(), stream.handle());
  };
  plan(captured);
  const CudaGraph graph(stream, [&] { wrapper.run(family.cases[captured], arguments); });
  EXPECT_LE(graph.num_nodes(), kernels_of(wrapper.base().current_plan().tiles) + target.extra_nodes)
      << "a run is one launch for each kernel that the tile table names";

  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < steps.size(); ++i) order.push_back(i);
  for (std::size_t i = steps.size(); i-- > 0;) order.push_back(i);
  for (const std::size_t i : order) {
    SCOPED_TRACE("layout " + std::to_string(i) + ", captured at " + std::to_string(captured));
    tensors.load(steps[i].data);
    plan(i);
    graph.replay(stream);
    graph.replay(stream);  // a replay leaves nothing behind that the next one would trip over
    stream.synchronize();
    expect_same_bits(steps[i].data, tensors.collect(steps[i].data), steps[i].eager, "replay");
  }
  expect_right(steps.front().data, steps.front().eager);
}

void replays_every_layout(const Target& target, const Family& family) {
  const std::vector<DType> dtypes = dtypes_of(target, family);
  if (dtypes.empty()) GTEST_SKIP() << target.name << " declines " << family.name;
  for (const DType dtype : dtypes) {
    SCOPED_TRACE(std::string(to_string(dtype)));
    expect_replays(target, family, dtype, 0);
    // Captured where there is nothing to do: the graph still has to do what comes later.
    for (std::size_t i = 0; i < family.cases.size(); ++i) {
      if (offsets_from_lengths(family.cases[i].q_lengths).back() > 0) continue;
      expect_replays(target, family, dtype, i);
      break;
    }
  }
}

void refusals_leave_the_graph(const Target& target, const Family& family) {
  const DType dtype = DType::bf16;
  const Case& c = family.cases.front();
  if (!target.backend->declines(problem_of(c, dtype), target.facts).empty()) return;
  const Data data = make_data(c, dtype);
  const Result eager = eager_result(target, data);
  const CudaStream stream;
  StaticTensors tensors(c, dtype, family.ceilings, *target.memory);
  tensors.load(data);
  AnyWrapper wrapper(c, capacity_options(target, family, dtype));
  RunArguments arguments = tensors.arguments();
  arguments.stream = stream.handle();
  wrapper.plan(c, HostOffsets(c).views(), stream.handle());
  const CudaGraph graph(stream, [&] { wrapper.run(c, arguments); });

  Case beyond = c;
  const auto expect = [&](std::int64_t count, std::int64_t ceiling) {
    expect_refused([&] { wrapper.plan(beyond, HostOffsets(beyond).views(), stream.handle()); },
                   ErrorCode::out_of_range, {std::to_string(count), std::to_string(ceiling)});
  };
  const std::int64_t segments = family.ceilings.max_num_segments;
  const auto more = static_cast<std::size_t>(segments) + 1;
  beyond.q_lengths.assign(more, 0);
  if (!c.kv_lengths.empty()) beyond.kv_lengths.assign(more, 0);
  if (c.two_sources()) beyond.prefix_lengths.assign(more, 0);
  expect(segments + 1, segments);
  beyond = c;
  const std::int64_t tokens = family.ceilings.max_total_tokens;
  const std::int64_t total = offsets_from_lengths(c.q_lengths).back();
  beyond.q_lengths.back() += tokens + 1 - total;
  expect(tokens + 1, tokens);

  graph.replay(stream);
  stream.synchronize();
  expect_same_bits(data, tensors.collect(data), eager, "after refusals");
}

// Plans and runs of many layouts in one graph, from offsets on the device; replayed with others.
TARGET_TEST(capture, plans_and_runs_in_one_graph) {
  const Family family = layout_families().front();
  const std::vector<Planned> steps = eager_results(target, family, DType::bf16);
  const CudaStream stream;
  StaticTensors tensors(family.cases.front(), DType::bf16, family.ceilings, *target.memory);
  AnyWrapper wrapper(family.cases.front(), capacity_options(target, family, DType::bf16));
  RunArguments arguments = tensors.arguments();
  arguments.stream = stream.handle();
  // As many entries for every layout: segments without rows at the end.
  const auto offsets_of = [&](std::size_t i) {
    std::vector<std::int64_t> lengths = family.cases[i].q_lengths;
    lengths.resize(static_cast<std::size_t>(family.ceilings.max_num_segments), 0);
    return offsets_from_lengths(lengths);
  };
  DeviceIndex offsets(offsets_of(0), IndexForm::int32, *target.memory);
  const Case& c = family.cases.front();
  const CudaGraph graph(stream, [&] {
    wrapper.plan(c, {offsets.view(), {}, {}}, stream.handle());
    wrapper.run(c, arguments);
  });
  for (const std::size_t i : {1U, 0U, 2U, 4U, 5U, 7U, 0U}) {
    SCOPED_TRACE("layout " + std::to_string(i));
    offsets.set(offsets_of(i));
    tensors.load(steps[i].data);
    graph.replay(stream);
    stream.synchronize();
    expect_same_bits(steps[i].data, tensors.collect(steps[i].data), steps[i].eager, "replay");
  }
}

// Edge case 24 at its own size, and 25's order of plans.
TARGET_TEST(capture, edge24_16384_tokens) {
  std::vector<std::int64_t> mixed = {8192};
  mixed.insert(mixed.end(), 62, 1);
  mixed.push_back(16384 - 8192 - 62);
  Family family = {"edge24", {64, 16384, 0}, {}};
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{16}, std::vector<std::int64_t>{16384},
        std::vector<std::int64_t>(64, 256), std::vector<std::int64_t>(64, 1),
        std::vector<std::int64_t>{0, 0, 16384}, mixed}) {
    Case c;
    c.name = family.name;
    c.num_qo_heads = c.num_kv_heads = 2;
    c.q_lengths = lengths;
    c.sampled_rows = 60;
    family.cases.push_back(c);
  }
  expect_replays(target, family, DType::bf16, 0);
}

void register_families(const Target& target) {
  for (const Family& family : layout_families()) {
    register_test(target, "capture", "replays_" + family.name, __FILE__, __LINE__,
                  [&target, family] { replays_every_layout(target, family); });
    register_test(target, "capture", "refusals_leave_" + family.name, __FILE__, __LINE__,
                  [&target, family] { refusals_leave_the_graph(target, family); });
  }
}

[[maybe_unused]] const bool added = add_generated_tests(register_families);

}  // namespace
}  // namespace ragged::test
