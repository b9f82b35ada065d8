// The prologue on a GPU makes the table that the host makes: the same units of each rule, however
// many blocks and launches the step takes. Skipped without a GPU.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "device/block.hpp"
#include "device/stage.hpp"
#include "support.hpp"

namespace ragged {
namespace {

using device::Unit;
using test::HostTable;
using test::Random;
using test::RandomStep;
using test::TableBackend;

class Prologue : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device::room() == nullptr || device::room()->num_devices() == 0) {
      GTEST_SKIP() << "no GPU: "
                   << (device::room() == nullptr ? std::string("no CUDA")
                                                 : device::room()->facts(0).absence);
    }
    device::prepare_stage();
  }
  static constexpr Device kGpu = {DeviceKind::cuda, 0};
};

// Slots of partial results are handed out in any order: which of them a unit has is not compared.
std::vector<std::array<std::int32_t, 12>> sorted_units(const device::TableHeader& header,
                                                       const Unit* units, std::int32_t rule) {
  std::vector<std::array<std::int32_t, 12>> all;
  for (std::int32_t i = 0; i < header.num_units[rule]; ++i) {
    std::array<std::int32_t, 12> words{};
    std::memcpy(words.data(), units + header.first_unit[rule] + i, sizeof(Unit));
    words[10] = std::min(words[10], 0);
    all.push_back(words);
  }
  std::sort(all.begin(), all.end());
  return all;
}

// A table on the GPU, fetched.
struct Fetched {
  std::vector<std::byte> bytes;
  [[nodiscard]] const device::TableHeader& header() const {
    return *reinterpret_cast<const device::TableHeader*>(bytes.data());
  }
  [[nodiscard]] const Unit* units() const {
    return reinterpret_cast<const Unit*>(bytes.data() + device::units_at());
  }
};

class GpuTable {
 public:
  GpuTable(Device gpu, const device::TableShape& shape) : gpu_(gpu), shape_(shape), block_(gpu) {
    block_.make(device::table_layout(shape).bytes);
  }
  Fetched make(const Plan& plan, StageArguments arguments, std::int64_t slots) {
    arguments.table = {block_.data(), block_.bytes()};
    device::StepShape shape;
    shape.table = shape_;
    shape.partial_slots = slots;
    device::stage_step(plan, arguments, shape);
    Fetched fetched;
    fetched.bytes.resize(block_.bytes());
    device::room()->copy(gpu_, fetched.bytes.data(), block_.data(), block_.bytes(), {});
    return fetched;
  }

 private:
  Device gpu_;
  device::TableShape shape_;
  device::Block block_;
};

Plan gpu_plan(const TableBackend& backend, const Problem& problem, const StepLayouts& layouts,
              Device gpu) {
  Plan plan;
  const Backend* list[] = {&backend};
  make_plan(plan, problem, layouts, device::room()->facts(gpu.index), list);
  return plan;
}

void expect_same(const Fetched& gpu, const HostTable& host, bool slots_differ) {
  const device::TableHeader& header = gpu.header();
  ASSERT_EQ(header.fault, host.header().fault);
  ASSERT_EQ(header.num_segments, host.header().num_segments);
  // With slots handed out in another order, other segments may have got them.
  if (slots_differ) return;
  for (std::int32_t rule = 0; rule < kMaxTileRules; ++rule) {
    ASSERT_EQ(header.first_unit[rule], host.header().first_unit[rule]);
    ASSERT_EQ(header.num_units[rule], host.header().num_units[rule]);
    ASSERT_EQ(sorted_units(header, gpu.units(), rule),
              sorted_units(host.header(), host.args.units, rule));
  }
}

TEST_F(Prologue, MakesTheTableOfTheHost) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const RandomStep step = test::random_step(random, true);
    // None, or room for all.
    const std::int64_t slots = random.chance(50) ? 0 : 1 << 20;
    const std::int32_t groups = step.problem.num_qo_heads / step.tiles.rules[0].tile.heads;
    const auto shape = device::table_shape(step.tiles, step.layouts.q.num_segments(),
                                           step.layouts.q.total_tokens(), true, slots, groups);
    HostTable host(shape);
    const TableBackend backend(step.tiles);
    const Plan plan = gpu_plan(backend, step.problem, step.layouts, kGpu);
    host.make(plan, {}, slots);
    GpuTable gpu(kGpu, shape);
    const Fetched made = gpu.make(plan, {}, slots);
    ASSERT_NO_FATAL_FAILURE(expect_same(made, host, false));
    // Units come in the order of their buckets.
    for (std::int32_t rule = 0; rule < kMaxTileRules; ++rule) {
      double before = std::numeric_limits<double>::max();
      for (std::int32_t i = 0; i < made.header().num_units[rule]; ++i) {
        const Unit& unit = made.units()[made.header().first_unit[rule] + i];
        if (unit.partial >= 0) continue;
        const double cost = visible_scores(mask_of(step.problem), unit.row_begin,
                                           unit.row_begin + unit.rows, unit.q_len, unit.kv_len) +
                            unit.rows;
        ASSERT_LT(cost, 1.25 * before);
        before = cost;
      }
    }
  }
}

// One parcel, several, one block and many; and offsets that lie on the device.
TEST_F(Prologue, MakesLongTables) {
  TileTable tiles;
  tiles.num_rules = 2;
  tiles.rules[0].max_q_length = 16;
  tiles.rules[0].tile = {.q_rows = 16, .kv_rows = 16, .unit_rows = 16};
  tiles.rules[1].tile = {.q_rows = 64, .kv_rows = 64, .unit_rows = 128, .split_keys = 512};
  Problem problem;
  problem.kind = AttentionKind::cross;
  problem.num_qo_heads = problem.num_kv_heads = 2;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  for (const std::int64_t segments : {1, 300, 1024, 1025, 3000, 5000, 8192, 8193, 40000, 131072}) {
    SCOPED_TRACE(std::to_string(segments) + " segments");
    Random random(static_cast<std::uint64_t>(segments));
    std::vector<std::int64_t> q, kv;
    for (std::int64_t i = 0; i < segments; ++i) {
      q.push_back(random.chance(95) ? random.integer(0, 20) : random.integer(0, 2000));
      kv.push_back(random.integer(0, 700));
    }
    StepLayouts layouts;
    layouts.q = test::layout_of(q);
    layouts.kv = test::layout_of(kv);
    const std::int64_t slots = segments == 1 ? 4096 : 0;
    const auto shape =
        device::table_shape(tiles, segments, layouts.q.total_tokens(), true, slots, 2);
    const TableBackend backend(tiles);
    const Plan plan = gpu_plan(backend, problem, layouts, kGpu);
    HostTable host(shape);
    host.make(plan, {}, slots);
    GpuTable gpu(kGpu, shape);
    ASSERT_NO_FATAL_FAILURE(expect_same(gpu.make(plan, {}, slots), host, false));

    // The same from the device's own memory, int32 and int64, every second entry.
    for (const IndexType type : {IndexType::int32, IndexType::int64}) {
      const std::size_t size = type == IndexType::int64 ? 8 : 4;
      const auto upload = [&](const Layout& layout) {
        std::vector<std::byte> bytes(2 * size * static_cast<std::size_t>(segments + 1));
        for (std::int64_t i = 0; i <= segments; ++i) {
          const std::int64_t wide = layout.begins()[i];
          const auto narrow = static_cast<std::int32_t>(wide);
          std::memcpy(bytes.data() + 2 * size * static_cast<std::size_t>(i),
                      size == 8 ? static_cast<const void*>(&wide) : &narrow, size);
        }
        device::Block block(kGpu);
        block.make(bytes.size());
        device::room()->copy(kGpu, block.data(), bytes.data(), bytes.size(), {});
        return block;
      };
      const device::Block q_block = upload(layouts.q);
      const device::Block kv_block = upload(layouts.kv);
      StageArguments arguments;
      arguments.q = {q_block.data(), type, segments + 1, 2, kGpu};
      arguments.kv = {kv_block.data(), type, segments + 1, 2, kGpu};
      StepLayouts unread;
      unread.q.assign_unread(arguments.q, "q", layouts.q.total_tokens());
      unread.kv.assign_unread(arguments.kv, "kv", layouts.kv.total_tokens());
      const Plan blind = gpu_plan(backend, problem, unread, kGpu);
      ASSERT_NO_FATAL_FAILURE(expect_same(gpu.make(blind, arguments, slots), host, false));
      // One row too many in the last key segment.
      unread.kv.assign_unread(arguments.kv, "kv", layouts.kv.total_tokens() - 1);
      const Fetched beyond = gpu.make(gpu_plan(backend, problem, unread, kGpu), arguments, slots);
      ASSERT_EQ(beyond.header().fault, device::OffsetFault::beyond_rows);
      ASSERT_EQ(beyond.header().fault_argument, 1);
      ASSERT_EQ(beyond.header().fault_index, segments);
      ASSERT_EQ(beyond.header().fault_value, layouts.kv.total_tokens());
      ASSERT_EQ(beyond.header().num_units[1], 0);
    }
  }
}

// A graph of the prologue reads, at each replay, what the offsets on the device hold then: one
// block, and several that wait for one another.
TEST_F(Prologue, IsCapturedAndReplayed) {
  TileTable tiles;
  tiles.num_rules = 1;
  tiles.rules[0].tile = {.q_rows = 16, .kv_rows = 16, .unit_rows = 16};
  Problem problem;
  problem.kind = AttentionKind::self;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  const auto ok = [](cudaError_t status) { ASSERT_EQ(status, cudaSuccess); };
  for (const std::int64_t segments : {100, 5000}) {
    SCOPED_TRACE(std::to_string(segments) + " segments");
    const std::int64_t most = 40 * segments;
    const auto shape = device::table_shape(tiles, segments, most, true, 0, 1);
    const TableBackend backend(tiles);
    device::Block offsets(kGpu);
    offsets.make(8 * static_cast<std::size_t>(segments + 1));
    device::Block table(kGpu);
    table.make(device::table_layout(shape).bytes);
    StageArguments arguments;
    arguments.q = {offsets.data(), IndexType::int64, segments + 1, 1, kGpu};
    arguments.table = {table.data(), table.bytes()};
    StepLayouts unread;
    unread.kv_is_q = true;
    unread.q.assign_unread(arguments.q, "q", most);
    const Plan plan = gpu_plan(backend, problem, unread, kGpu);
    device::StepShape step;
    step.table = shape;
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    ok(cudaStreamCreate(&stream));
    arguments.stream = {stream};
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    device::stage_step(plan, arguments, step);
    ok(cudaStreamEndCapture(stream, &graph));
    ok(cudaGraphInstantiate(&replay, graph, 0));
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      Random random(seed);
      std::vector<std::int64_t> lengths;
      for (std::int64_t i = 0; i < segments; ++i) lengths.push_back(random.integer(0, 40));
      StepLayouts layouts;
      layouts.kv_is_q = true;
      layouts.q = test::layout_of(lengths);
      HostTable host(shape);
      host.make(gpu_plan(backend, problem, layouts, kGpu));
      device::room()->copy(kGpu, offsets.data(), layouts.q.begins(), offsets.bytes(), {});
      ok(cudaGraphLaunch(replay, stream));
      ok(cudaStreamSynchronize(stream));
      Fetched made;
      made.bytes.resize(table.bytes());
      device::room()->copy(kGpu, made.bytes.data(), table.data(), table.bytes(), {});
      ASSERT_NO_FATAL_FAILURE(expect_same(made, host, false));
    }
    ok(cudaGraphExecDestroy(replay));
    ok(cudaGraphDestroy(graph));
    ok(cudaStreamDestroy(stream));
  }
}

// Fewer slots than pieces: no slot twice, every unit whole, whatever the order of the grants.
TEST_F(Prologue, GrantsEachSlotOnce) {
  TileTable tiles;
  tiles.num_rules = 1;
  tiles.rules[0].tile = {.q_rows = 16, .kv_rows = 64, .unit_rows = 16, .split_keys = 64};
  Problem problem;
  problem.kind = AttentionKind::cross;
  problem.num_qo_heads = problem.num_kv_heads = 3;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  for (const std::int64_t segments : {40, 1200}) {
    Random random(7);
    std::vector<std::int64_t> q, kv;
    for (std::int64_t i = 0; i < segments; ++i) {
      q.push_back(i % (segments / 8) == 0 ? random.integer(1, 40) : 0);
      kv.push_back(random.integer(0, 2000));
    }
    StepLayouts layouts;
    layouts.q = test::layout_of(q);
    layouts.kv = test::layout_of(kv);
    const std::int64_t slots = 3 * 130 + 1;
    const auto shape =
        device::table_shape(tiles, segments, layouts.q.total_tokens(), true, slots, 3);
    const Plan plan = gpu_plan(TableBackend(tiles), problem, layouts, kGpu);
    GpuTable gpu(kGpu, shape);
    const Fetched made = gpu.make(plan, {}, slots);
    std::vector<int> used(static_cast<std::size_t>(slots));
    std::int64_t rows = 0;
    for (std::int32_t i = 0; i < made.header().num_units[0]; ++i) {
      const Unit& unit = made.units()[i];
      if (unit.chunk == 0) rows += unit.rows;
      if (unit.partial < 0) continue;
      for (std::int32_t slot = unit.partial; slot < unit.partial + 3; ++slot) {
        ASSERT_LT(slot, slots);
        ASSERT_EQ(used[static_cast<std::size_t>(slot)]++, 0);
      }
    }
    EXPECT_EQ(rows, layouts.q.total_tokens());
    EXPECT_GT(std::count(used.begin(), used.end(), 1), slots / 4);
  }
}

}  // namespace
}  // namespace ragged
