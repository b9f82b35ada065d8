// Plans of a backend whose device places the units: the host counts them and no more.

#include "support.hpp"

namespace ragged {
namespace {

using test::FakeBackend;
using test::problem_of;
using test::self_layouts;

FakeBackend device_backend() {
  FakeBackend backend;
  backend.on_device = true;
  backend.tuning.tiles.num_rules = 2;
  backend.tuning.tiles.rules[0].max_q_length = 8;
  backend.tuning.tiles.rules[0].tile = {.q_rows = 8, .kv_rows = 16, .unit_rows = 8};
  backend.tuning.tiles.rules[1].tile = {.q_rows = 16, .kv_rows = 16, .unit_rows = 32};
  backend.tuning.table_bytes = 512;
  return backend;
}

Plan plan_of(const FakeBackend& backend, const StepLayouts& layouts,
             const std::optional<Ceilings>& ceilings = std::nullopt) {
  Problem problem = problem_of(AttentionKind::self);
  problem.causal = true;
  Plan plan;
  const Backend* list[] = {&backend};
  make_plan(plan, problem, layouts, DeviceFacts::host(1), list, RaggedAttnBackend::AUTO, ceilings);
  return plan;
}

TEST(PlanOnDevice, CountsTheUnitsThatAHostWouldPlace) {
  const FakeBackend device = device_backend();
  FakeBackend host = device_backend();
  host.on_device = false;
  const StepLayouts layouts = self_layouts({100, 3, 0, 8, 33});
  const Plan placed = plan_of(host, layouts);
  const Plan counted = plan_of(device, layouts);
  EXPECT_EQ(std::ssize(placed.units), 8);
  EXPECT_TRUE(counted.units.empty());
  EXPECT_EQ(counted.num_units, 8);
  EXPECT_EQ(counted.rule_units[0], 2);
  EXPECT_EQ(counted.rule_units[1], 6);
  EXPECT_EQ(counted.num_items(), placed.num_items());
  EXPECT_EQ(counted.work_units(), placed.units);
  EXPECT_EQ(counted.waste().scores_computed, placed.waste().scores_computed);
  EXPECT_EQ(counted.to_json(true), placed.to_json(true));
}

TEST(PlanOnDevice, StageNeedsATable) {
  const FakeBackend backend = device_backend();
  const Plan plan = plan_of(backend, self_layouts({5}));
  EXPECT_EQ(plan.table_bytes, 512U);
  alignas(256) std::array<std::byte, 768> memory{};
  const auto refused = [&](StepTable table) {
    return test::refusal(ErrorCode::invalid_argument, [&] { stage(plan, {.table = table}); });
  };
  EXPECT_EQ(refused({}), "table has 0 bytes; the plan needs 512");
  EXPECT_EQ(refused({memory.data(), 511}), "table has 511 bytes; the plan needs 512");
  EXPECT_EQ(refused({memory.data() + 64, 512}),
            "table must be aligned to 256 bytes; its address is 64 past a multiple");
  EXPECT_EQ(backend.stages, 0);
  stage(plan, {.table = {memory.data(), 512}});
  EXPECT_EQ(backend.stages, 1);
  EXPECT_EQ(test::refusal(ErrorCode::not_planned, [] { stage(Plan(), {}); }),
            "stage needs a plan that make_plan has filled; got an empty one");
}

TEST(PlanOnDevice, AnEmptyStepStartsOnlyWhereAGraphMayHoldIt) {
  const FakeBackend backend = device_backend();
  alignas(256) std::array<std::byte, 512> memory{};
  const StepTable table{memory.data(), memory.size()};
  RunArguments arguments;
  test::Tensor q(DType::bf16, 1, 4, 64);
  test::Tensor k(DType::bf16, 1, 2, 64);
  arguments.q = arguments.out = q.view();
  arguments.k = arguments.v = k.view();
  arguments.table = table;
  const Plan eager = plan_of(backend, self_layouts({0, 0}));
  stage(eager, {.table = table});
  run(eager, arguments);
  EXPECT_EQ(backend.stages, 0);
  EXPECT_EQ(backend.runs, 0);
  const Plan captured = plan_of(backend, self_layouts({0, 0}), Ceilings{2, 8, 8});
  stage(captured, {.table = table});
  run(captured, arguments);
  EXPECT_EQ(backend.stages, 1);
  EXPECT_EQ(backend.runs, 1);
}

}  // namespace
}  // namespace ragged
