#include <cmath>
#include <limits>

#include "support.hpp"

namespace ragged {
namespace {

using test::expect_text;
using test::FakeBackend;
using test::pair_layouts;
using test::problem_of;
using test::refusal;
using test::self_layouts;

const DeviceFacts kHost = DeviceFacts::host(2);

std::string problem_refusal(const Problem& problem) {
  return refusal(ErrorCode::invalid_argument, [&] { problem.validate(); });
}

TEST(Problem, EveryFieldIsCheckedByName) {
  Problem p = problem_of(AttentionKind::self, 16, 3);
  EXPECT_EQ(problem_refusal(p), "num_qo_heads must be a multiple of num_kv_heads; got 16 and 3");
  p = problem_of(AttentionKind::self, 0, 1);
  EXPECT_EQ(problem_refusal(p), "num_qo_heads must be at least 1; got 0");
  p = problem_of(AttentionKind::self, 4, -1);
  EXPECT_EQ(problem_refusal(p), "num_kv_heads must be at least 1; got -1");
  for (const int head_dim : {0, 4, 100, 264}) {
    p = problem_of(AttentionKind::self, 4, 2, head_dim);
    EXPECT_EQ(problem_refusal(p),
              "head_dim must be a multiple of 8 in 8..256; got " + std::to_string(head_dim));
  }
  p = problem_of(AttentionKind::self);
  p.sm_scale = std::nan("");
  expect_text(problem_refusal(p), "sm_scale must be finite");
  p = problem_of(AttentionKind::cross);
  p.causal = true;
  expect_text(problem_refusal(p), "causal must be false in cross attention");
  p = problem_of(AttentionKind::block_causal);
  EXPECT_EQ(problem_refusal(p), "block_size must be at least 1; got 0");
  p.block_size = 4;
  p.causal = true;
  expect_text(problem_refusal(p), "the block structure is the whole mask");
  p = problem_of(AttentionKind::self);
  p.block_size = 4;
  expect_text(problem_refusal(p), "block_size must be 0 in self attention");
  p = problem_of(AttentionKind::cross);
  p.two_sources = true;
  expect_text(problem_refusal(p), "two_sources must be false in cross attention");
  p = problem_of(static_cast<AttentionKind>(9));
  expect_text(problem_refusal(p), "kind must be one of");
  p = problem_of(AttentionKind::self);
  p.dtype = static_cast<DType>(7);
  expect_text(problem_refusal(p), "dtype must be one of");
}

// The refusal of a plan on facts of a CPU.
std::string facts_refusal(const DeviceFacts& facts) {
  const FakeBackend backend;
  const Backend* list[] = {&backend};
  Plan plan;
  return refusal(ErrorCode::invalid_argument, [&] {
    make_plan(plan, problem_of(AttentionKind::self), self_layouts({3}), facts, list);
  });
}

TEST(Plan, ACpuHasAtLeastOneThreadAndNoMoreThanAnyMachine) {
  for (const int threads : {0, -1, 4097, 2147483647}) {
    DeviceFacts facts = DeviceFacts::host(1);
    facts.threads = threads;
    EXPECT_EQ(facts_refusal(facts),
              "threads of the device facts must be in 1..4096; got " + std::to_string(threads));
  }
}

TEST(Plan, ACpuHasVectorsOfAKnownName) {
  for (const char* simd : {"bogus", "", "AVX2"}) {
    DeviceFacts facts = DeviceFacts::host(1);
    facts.simd = simd;
    EXPECT_EQ(facts_refusal(facts),
              "simd of the device facts must be one of scalar, sse4, avx2, avx512, amx, neon, sve; "
              "got '" +
                  std::string(simd) + "'");
  }
}

TEST(Plan, LayoutsMustPair) {
  const FakeBackend backend;
  const auto text = [&](const Problem& problem, const StepLayouts& layouts) {
    return refusal(ErrorCode::invalid_argument,
                   [&] { test::plan_with(backend, problem, layouts); });
  };
  expect_text(text(problem_of(AttentionKind::cross), pair_layouts({1, 2}, {3})),
              "q has 2 segments, kv has 1");
  expect_text(text(problem_of(AttentionKind::self), pair_layouts({1, 2}, {1, 2})),
              "takes its keys from the query layout");
  Problem prefixed = problem_of(AttentionKind::prefixed);
  prefixed.two_sources = true;
  expect_text(text(prefixed, self_layouts({1, 2})), "q has 2 segments, prefix has 0");
  StepLayouts with_prefix = self_layouts({1});
  with_prefix.prefix = test::layout_of({4});
  expect_text(text(problem_of(AttentionKind::self), with_prefix), "needs two_sources = true");
}

TEST(Plan, NothingToDoIsAPlan) {
  const FakeBackend backend;
  for (const StepLayouts& layouts : {self_layouts({}), self_layouts({0, 0})}) {
    const Plan plan = test::plan_with(backend, problem_of(AttentionKind::self), layouts);
    EXPECT_TRUE(plan.units.empty());
    EXPECT_EQ(plan.num_items(), 0);
    EXPECT_EQ(plan.flops(), 0);
    EXPECT_EQ(plan.waste().rows_computed, 0);
  }
  // Queries without keys still have rows to write.
  const Plan plan =
      test::plan_with(backend, problem_of(AttentionKind::cross), pair_layouts({5}, {0}));
  EXPECT_EQ(plan.units.size(), 1U);
}

TEST(Plan, TakesTheFirstThatServesAndSaysWhyNotTheOthers) {
  const FakeBackend first(RaggedAttnBackend::SM90, "device must be a GPU; got cpu");
  const FakeBackend second(RaggedAttnBackend::CPU);
  const FakeBackend third(RaggedAttnBackend::REFERENCE);
  const Backend* list[] = {&first, &second, &third};
  Plan plan;
  make_plan(plan, problem_of(AttentionKind::self), self_layouts({4}), kHost, list);
  EXPECT_EQ(plan.backend, &second);
  EXPECT_EQ(plan.backend_name, "cpu");
  EXPECT_EQ(plan.choice_reason, "the first in order of preference that serves it");
  EXPECT_EQ(plan.declined,
            (std::vector<Declined>{
                {"sm90", "device must be a GPU; got cpu"},
                {"reference", "could serve; comes after cpu in order of preference"}}));

  make_plan(plan, problem_of(AttentionKind::self), self_layouts({4}), kHost, list,
            RaggedAttnBackend::REFERENCE);
  EXPECT_EQ(plan.backend, &third);
  EXPECT_EQ(plan.choice_reason, "pinned by name");
  EXPECT_EQ(plan.declined[1], (Declined{"cpu", "could serve; reference is pinned"}));
}

TEST(Plan, UnsupportedListsEveryReason) {
  const FakeBackend first(RaggedAttnBackend::SM90, "no GPU");
  const FakeBackend second(RaggedAttnBackend::CPU, "no bf16");
  const Backend* list[] = {&first, &second};
  Plan plan;
  const auto text = [&](RaggedAttnBackend pinned, std::span<const Backend* const> backends) {
    return refusal(ErrorCode::unsupported, [&] {
      make_plan(plan, problem_of(AttentionKind::self), self_layouts({4}), kHost, backends, pinned);
    });
  };
  expect_text(text(RaggedAttnBackend::AUTO, list), "sm90: no GPU; cpu: no bf16");
  expect_text(text(RaggedAttnBackend::CPU, list), ": cpu: no bf16");
  expect_text(text(RaggedAttnBackend::CUDNN, list), "cudnn is not built");
  expect_text(text(RaggedAttnBackend::AUTO, {}), "this build has no backend");
  EXPECT_EQ(plan, Plan());
}

TEST(Plan, AChoiceIsMadeOnceForTheSameValues) {
  const FakeBackend backend;
  const FakeBackend other(RaggedAttnBackend::REFERENCE);
  const Backend* both[] = {&backend, &other};
  const Backend* swapped[] = {&other, &backend};
  Plan plan;
  Problem problem = problem_of(AttentionKind::self);
  make_plan(plan, problem, self_layouts({4}), kHost, both);
  make_plan(plan, problem, self_layouts({40, 3}), kHost, both);
  EXPECT_EQ(backend.declines_calls, 1);
  EXPECT_EQ(plan.layouts.q.num_segments(), 2);
  make_plan(plan, problem, self_layouts({4}), kHost, swapped);
  EXPECT_EQ(plan.backend, &other);
  make_plan(plan, problem, self_layouts({4}), kHost, both);
  EXPECT_EQ(plan.backend, &backend);
  problem.head_dim = 72;
  const int before = backend.declines_calls;
  make_plan(plan, problem, self_layouts({4}), kHost, both);
  EXPECT_EQ(backend.declines_calls, before + 1);
  make_plan(plan, problem, self_layouts({4}), DeviceFacts::host(1), both);
  EXPECT_EQ(backend.declines_calls, before + 2);
}

TEST(Plan, TotalsComeFromTheLayout) {
  const FakeBackend backend;
  Problem problem = problem_of(AttentionKind::prefixed);
  problem.two_sources = true;
  StepLayouts layouts = self_layouts({3, 10});
  layouts.prefix = test::layout_of({9, 1});
  test::plan_with(backend, problem, layouts);
  EXPECT_EQ(backend.seen.num_segments, 2);
  EXPECT_EQ(backend.seen.total_tokens, 13);
  EXPECT_EQ(backend.seen.total_kv_tokens, 23);
  EXPECT_EQ(backend.seen.max_q_length, 10);
  EXPECT_EQ(backend.seen.max_kv_length, 12);
}

TEST(Plan, CapacityModeChoosesOnTheCeilingsAlone) {
  const FakeBackend backend;
  const Backend* list[] = {&backend};
  const Ceilings ceilings{4, 100, 60};
  Plan plan;
  make_plan(plan, problem_of(AttentionKind::cross), pair_layouts({5}, {6}), kHost, list,
            RaggedAttnBackend::AUTO, ceilings);
  EXPECT_EQ(backend.seen.num_segments, 4);
  EXPECT_EQ(backend.seen.total_tokens, 100);
  EXPECT_EQ(backend.seen.total_kv_tokens, 60);
  EXPECT_EQ(backend.seen.max_q_length, 100);
  EXPECT_EQ(backend.seen.max_kv_length, 60);
  EXPECT_EQ(plan.ceilings, ceilings);
  // Whatever comes within the ceilings needs no more room.
  const WorkUnit* storage = plan.units.data();
  const std::int64_t* offsets = plan.layouts.q.begins();
  make_plan(plan, problem_of(AttentionKind::cross), pair_layouts({97, 1, 1, 1}, {57, 1, 1, 1}),
            kHost, list, RaggedAttnBackend::AUTO, ceilings);
  EXPECT_EQ(plan.units.data(), storage);
  EXPECT_EQ(plan.layouts.q.begins(), offsets);
}

TEST(Plan, CeilingsNameCountAndCeilingAndLeaveThePlan) {
  const FakeBackend backend;
  const Backend* list[] = {&backend};
  const Ceilings ceilings{2, 10, 20};
  Plan plan;
  const auto make = [&](AttentionKind kind, const StepLayouts& layouts) {
    make_plan(plan, problem_of(kind), layouts, kHost, list, RaggedAttnBackend::AUTO, ceilings);
  };
  make(AttentionKind::cross, pair_layouts({4}, {20}));
  const Plan before = plan;
  const auto text = [&](AttentionKind kind, const StepLayouts& layouts) {
    return refusal(ErrorCode::out_of_range, [&] { make(kind, layouts); });
  };
  EXPECT_EQ(text(AttentionKind::self, self_layouts({1, 1, 1})),
            "num_segments = 3 exceeds the ceiling max_num_segments = 2");
  EXPECT_EQ(text(AttentionKind::self, self_layouts({5, 6})),
            "total_tokens = 11 exceeds the ceiling max_total_tokens = 10");
  EXPECT_EQ(text(AttentionKind::cross, pair_layouts({5}, {21})),
            "total_kv_tokens = 21 exceeds the ceiling max_total_kv_tokens = 20");
  EXPECT_EQ(plan, before);
  const Ceilings absurd{std::numeric_limits<std::int64_t>::max(),
                        std::numeric_limits<std::int64_t>::max(), 1};
  refusal(ErrorCode::invalid_argument, [&] {
    make_plan(plan, problem_of(AttentionKind::self), self_layouts({1}), kHost, list,
              RaggedAttnBackend::AUTO, absurd);
  });
  EXPECT_EQ(plan, before);
}

TEST(Plan, AStepOfTooManyUnitsIsRefused) {
  const FakeBackend backend;
  const std::string text = refusal(ErrorCode::out_of_range, [&] {
    test::plan_with(backend, problem_of(AttentionKind::self),
                    self_layouts({std::int64_t{1} << 40}));
  });
  expect_text(text, "work units");
}

TEST(Plan, BrokenTilesAreTheBackendsBug) {
  FakeBackend backend;
  Tile& tile = backend.tuning.tiles.rules[0].tile;
  const auto text = [&] {
    return refusal(ErrorCode::internal, [&] {
      test::plan_with(backend, problem_of(AttentionKind::self), self_layouts({4}));
    });
  };
  tile.row_step = 9;
  expect_text(text(), "tiles of backend cpu: rule 0: row_step must be in 0..q_rows");
  tile.row_step = 0;
  tile.unit_rows = 12;
  expect_text(text(), "tiles of backend cpu: rule 0: unit_rows must be a positive multiple");
  tile = {};
  tile.heads = 3;
  expect_text(text(), "heads must divide the group of 2");
  tile = {};
  backend.tuning.tiles.rules[0].max_q_length = 5;
  expect_text(text(), "the last rule must hold every length");
  backend.tuning.tiles.num_rules = 0;
  expect_text(text(), "num_rules must be in 1..8");
}

TEST(Plan, PlanningItsOwnLayoutsAgainChangesNothing) {
  const FakeBackend backend;
  const Backend* list[] = {&backend};
  Plan plan = test::plan_with(backend, problem_of(AttentionKind::self), self_layouts({70, 3}));
  const Plan before = plan;
  make_plan(plan, plan.problem, plan.layouts, plan.device, list);
  EXPECT_EQ(plan, before);
}

TEST(Plan, FiguresOfAKnownStep) {
  FakeBackend backend;
  Problem problem = problem_of(AttentionKind::self, 4, 2, 64);
  problem.causal = true;
  const Plan plan = test::plan_with(backend, problem, self_layouts({10, 3}));
  EXPECT_EQ(plan.flops(), 4.0 * (55 + 6) * 4 * 64);
  EXPECT_EQ(plan.bytes(), 13.0 * 64 * 2 * (2 * 4 + 2 * 2));
  EXPECT_EQ(plan.items_per_unit, 4);
  // Tiles of 8 rows by 16 keys: two for ten rows, one for three.
  const Waste waste = plan.waste();
  EXPECT_EQ(waste.rows_useful, 13);
  EXPECT_EQ(waste.rows_computed, 24);
  EXPECT_EQ(waste.scores_useful, 61);
  EXPECT_EQ(waste.scores_computed, 3.0 * 8 * 16);
}

TEST(Plan, WasteEndsWhereTheKernelDoes) {
  FakeBackend backend;
  Tile& tile = backend.tuning.tiles.rules[0].tile;
  tile.row_step = 2;
  tile.key_step = 4;
  Problem problem = problem_of(AttentionKind::self, 4, 2, 64);
  problem.causal = true;
  const Plan plan = test::plan_with(backend, problem, self_layouts({10, 3}));
  // 8 rows by 8 keys, 2 rows by 10 keys, 3 rows by 3 keys.
  const Waste waste = plan.waste();
  EXPECT_EQ(waste.rows_computed, 8 + 2 + 4);
  EXPECT_EQ(waste.scores_computed, 8 * 8 + 2 * 12 + 4 * 4);
}

}  // namespace
}  // namespace ragged
