// What planning does with memory. A program of its own, since it counts and fails allocations.

#include <cstdlib>
#include <new>

#include "support.hpp"

namespace {

// Allocations until one fails, and only that one; negative: none does.
long allocations_left = -1;
long allocations = 0;

void* allocate(std::size_t bytes) {
  ++allocations;
  if (allocations_left == 0) {
    allocations_left = -1;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) --allocations_left;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ragged {
namespace {

const std::string kLongReason(100, 'x');

TEST(PlanMemory, NothingIsAllocatedOnceStorageHasGrown) {
  const test::FakeBackend declining(RaggedAttnBackend::SM90, kLongReason);
  const test::FakeBackend backend;
  const Backend* list[] = {&declining, &backend};
  const Problem problem = test::problem_of(AttentionKind::cross);
  const DeviceFacts host = DeviceFacts::host(1);
  const StepLayouts large = test::pair_layouts({300, 5, 70}, {9, 10, 11});
  const StepLayouts small = test::pair_layouts({3, 250}, {1, 2});
  Plan plan;
  make_plan(plan, problem, large, host, list);
  const long before = allocations;
  make_plan(plan, problem, small, host, list);
  make_plan(plan, problem, large, host, list);
  EXPECT_EQ(allocations, before);
}

TEST(PlanMemory, CapacityModeAllocatesOnce) {
  const test::FakeBackend backend;
  const Backend* list[] = {&backend};
  const Problem problem = test::problem_of(AttentionKind::self);
  const DeviceFacts host = DeviceFacts::host(1);
  const Ceilings ceilings{64, 16384, 0};
  Plan plan;
  make_plan(plan, problem, test::self_layouts({0}), host, list, RaggedAttnBackend::AUTO, ceilings);
  const StepLayouts one = test::self_layouts({16384});
  std::vector<std::int64_t> uneven(63, 33);
  uneven.push_back(16384 - 63 * 33);
  StepLayouts many;
  many.q = test::layout_of(uneven);
  many.kv_is_q = true;
  const long before = allocations;
  make_plan(plan, problem, one, host, list, RaggedAttnBackend::AUTO, ceilings);
  make_plan(plan, problem, many, host, list, RaggedAttnBackend::AUTO, ceilings);
  EXPECT_EQ(allocations, before);
}

// Fails the first, second, ... allocation of a plan until it gets through.
TEST(PlanMemory, APlanThatRunsOutOfMemoryIsAsBefore) {
  const test::FakeBackend declining(RaggedAttnBackend::SM90, kLongReason);
  const test::FakeBackend backend;
  const Backend* list[] = {&declining, &backend};
  const DeviceFacts host = DeviceFacts::host(1);
  Problem problem = test::problem_of(AttentionKind::cross);
  Plan plan;
  make_plan(plan, problem, test::pair_layouts({3}, {4}), host, list);
  const Plan before = plan;
  const StepLayouts large = test::pair_layouts({300, 5, 70}, {9, 10, 11});
  problem.head_dim = 72;
  int failures = 0;
  for (long allowed = 0;; ++allowed) {
    ErrorCode code = ErrorCode::ok;
    allocations_left = allowed;
    try {
      make_plan(plan, problem, large, host, list);
    } catch (const Error& error) {
      code = error.code();
    }
    allocations_left = -1;
    if (code == ErrorCode::ok) break;
    ++failures;
    ASSERT_EQ(code, ErrorCode::out_of_memory);
    ASSERT_EQ(plan, before) << "after " << allowed << " allocations";
  }
  EXPECT_GT(failures, 2);
  EXPECT_EQ(plan.layouts, large);
}

TEST(PlanMemory, ALayoutThatRunsOutOfMemoryIsAsBefore) {
  Layout layout = test::layout_of({1, 2});
  const Layout before = layout;
  const std::vector<std::int64_t> starts = {40, 20, 0};
  const std::vector<std::int64_t> lengths = {5, 5, 5};
  int failures = 0;
  for (long allowed = 0; layout == before; ++allowed) {
    ErrorCode code = ErrorCode::ok;
    allocations_left = allowed;
    try {
      layout.assign_spans({starts, lengths}, "q");
    } catch (const Error& error) {
      code = error.code();
    }
    allocations_left = -1;
    if (code == ErrorCode::ok) break;
    ++failures;
    EXPECT_EQ(code, ErrorCode::out_of_memory);
    ASSERT_EQ(layout, before);
  }
  EXPECT_GT(failures, 0);
  EXPECT_EQ(layout.num_segments(), 3);
}

}  // namespace
}  // namespace ragged
