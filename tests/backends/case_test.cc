// The table of cases: each is right by every path, with every poison, to the same bits.

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "backends/target_tests.hpp"

namespace ragged::test {
namespace {

// Multiply-adds of all rows.
double work_of(const Case& c) {
  double scores = 0;
  for (std::size_t i = 0; i < c.num_segments(); ++i) {
    const std::int64_t prefix = c.two_sources() ? c.prefix_lengths[i] : 0;
    scores += static_cast<double>(c.q_lengths[i] * (c.key_lengths()[i] + prefix));
  }
  return 2.0 * scores * c.num_qo_heads * c.head_dim;
}

// Heads are independent, so a slow target keeps the ratio of heads and at most two key heads.
Case narrowed_to_two_key_heads(Case c) {
  const int group = c.num_qo_heads / c.num_kv_heads;
  c.num_kv_heads = std::min(c.num_kv_heads, 2);
  c.num_qo_heads = c.num_kv_heads * group;
  return c;
}

void run_right(const Target& target, const Case& whole) {
  const Case c = target.slow ? narrowed_to_two_key_heads(whole) : whole;
  // The paths differ in nothing that grows with the case or that depends on the instruction set.
  const bool every_path = !target.narrowed && (!target.slow || work_of(c) < 1e7);
  bool served = false;
  std::string reason;
  for (const DType dtype : c.dtypes) {
    SCOPED_TRACE(std::string(to_string(dtype)));
    reason = target.backend->declines(problem_of(c, dtype), target.facts);
    if (!reason.empty()) {
      EXPECT_TRUE(target.may_decline) << "declined: " << reason;
      continue;
    }
    served = true;
    const Data data = make_data(c, dtype);
    if (refuses_alignment(target, data)) continue;
    const Result first = execute(target, data);
    expect_right(data, first);
    if (!every_path) continue;
    How how;
    how.path = Path::wrapper;
    how.poison = Poison::inf;
    how.lse = false;
    expect_same_bits(data, execute(target, data, how), first, "wrapper, Inf around, no LSE");
    how.path = Path::capacity;
    how.lse = true;
    expect_same_bits(data, execute(target, data, how), first, "capacity mode, Inf around");
  }
  if (!served) GTEST_SKIP() << target.name << " declines: " << reason;
}

template <typename Call>
void expect_refusal(const Case& c, const char* where, const Call& call) {
  try {
    call();
    ADD_FAILURE() << where << " was not refused";
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    for (const std::string& part : c.refused) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << where << ": '" << part << "' is missing in: " << error.what();
    }
  }
}

void run_refused(const Target& target, const Case& c) {
  const auto length = [&](std::int64_t i) { return c.q_lengths[static_cast<std::size_t>(i)]; };
  StepLayouts layouts;
  layouts.q.assign_offsets({0, length(0), length(0) + length(1)}, "cu_seqlens");
  layouts.kv_is_q = true;
  expect_refusal(c, "make_plan", [&] {
    Problem problem = problem_of(c, DType::fp32);
    problem.sm_scale = 1.0;
    const Backend* const backends[] = {target.backend};
    Plan plan;
    make_plan(plan, problem, layouts, target.facts, backends);
  });
  expect_refusal(c, "the wrapper", [&] {
    AnyWrapper wrapper(c, wrapper_options(target, c, DType::fp32));
    // Reached only if the constructor let it pass.
    const Data data = make_data(c, DType::fp32);
    wrapper.plan(Step(data, *target.memory, Poison::nan));
  });
}

void register_table(const Target& target) {
  for (const auto& table : {shape_cases(), segment_cases(), mask_cases(), value_cases(),
                            storage_cases(), refused_cases()}) {
    for (const Case& c : table) {
      if ((target.slow || target.narrowed) && c.sampled_rows > 0) continue;
      register_test(target, "cases", c.name, __FILE__, __LINE__, [&target, c] {
        if (c.refused.empty()) {
          run_right(target, c);
        } else {
          run_refused(target, c);
        }
      });
    }
  }
}

[[maybe_unused]] const bool added = add_generated_tests(register_table);

}  // namespace
}  // namespace ragged::test
