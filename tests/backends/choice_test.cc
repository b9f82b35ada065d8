// Which backend serves, why the others do not, and what a plan asks for (edge case 34, and the
// bound on the workspace).

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/execute.hpp"
#include "backends/refusal.hpp"

namespace ragged::test {
namespace {

Problem usual_problem() {
  Problem problem;
  problem.num_qo_heads = 4;
  problem.num_kv_heads = 2;
  problem.head_dim = 64;
  problem.sm_scale = 0.125;
  return problem;
}

TARGET_TEST(choice, the_pinned_backend_runs_and_says_so) {
  Case c;
  c.name = "choice";
  c.q_lengths = {4, 6};
  const Data data = make_data(c, DType::bf16);
  Step step(data, *target.memory, Poison::nan);
  AnyWrapper wrapper(c, wrapper_options(target, c, DType::bf16));
  wrapper.plan(step);
  const Plan& plan = wrapper.base().current_plan();
  EXPECT_EQ(plan.backend, target.backend);
  EXPECT_EQ(plan.backend_name, target.backend->name());
  EXPECT_FALSE(plan.choice_reason.empty());
  EXPECT_EQ(plan.declined.size() + 1, built_backends().size());
  const std::string text = wrapper.base().explain();
  for (const Backend* backend : built_backends()) {
    EXPECT_NE(text.find(backend->name()), std::string::npos) << text;
  }
}

TARGET_TEST(choice, edge34_a_device_that_is_not_there) {
  const DeviceFacts other =
      DeviceFacts::parse(target.facts.device.kind == DeviceKind::cpu ? "h200" : "cpu");
  const std::string reason = target.backend->declines(usual_problem(), other);
  ASSERT_FALSE(reason.empty());
  EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
  StepLayouts layouts;
  layouts.q.assign_offsets({0, 4}, "cu_seqlens");
  layouts.kv_is_q = true;
  const Backend* const backends[] = {target.backend};
  Plan plan;
  expect_refused([&] { make_plan(plan, usual_problem(), layouts, other, backends); },
                 ErrorCode::unsupported, {std::string(target.backend->name()), reason});
  EXPECT_EQ(plan.backend, nullptr);
}

std::vector<std::int64_t> lengths_of(const nlohmann::json& runs) {
  std::vector<std::int64_t> lengths;
  for (const auto& run : runs) {
    lengths.insert(lengths.end(), run.at(0).get<std::size_t>(), run.at(1).get<std::int64_t>());
  }
  return lengths;
}

Case workload_case(const nlohmann::json& workload) {
  Case c;
  c.name = workload.at("name").get<std::string>();
  c.kind = parse_kind(workload.at("kind").get<std::string>());
  c.num_qo_heads = workload.at("num_qo_heads").get<int>();
  c.num_kv_heads = workload.at("num_kv_heads").get<int>();
  c.head_dim = workload.at("head_dim").get<int>();
  c.causal = workload.at("causal").get<bool>();
  c.dtypes = {parse_dtype(workload.at("dtype").get<std::string>())};
  if (!workload.at("block_size").is_null()) c.block_size = workload.at("block_size");
  c.q_lengths = lengths_of(workload.at("q_segments"));
  if (!workload.at("kv_segments").is_null()) {
    (c.kind == AttentionKind::prefixed ? c.prefix_lengths : c.kv_lengths) =
        lengths_of(workload.at("kv_segments"));
  }
  return c;
}

// Plans every workload of a file, eager and in capacity mode, with no tensors.
void plan_workloads(const Target& target, const char* path) {
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " (run from the project's root)";
  const nlohmann::json workloads = nlohmann::json::parse(file);
  ASSERT_FALSE(workloads.empty());
  for (const auto& workload : workloads) {
    const Case c = workload_case(workload);
    SCOPED_TRACE(c.name);
    StepLayouts layouts;
    layouts.q.assign_offsets(offsets_from_lengths(c.q_lengths), "q_cu_seqlens");
    layouts.kv_is_q = c.kv_lengths.empty();
    if (!layouts.kv_is_q) layouts.kv.assign_offsets(offsets_from_lengths(c.kv_lengths), "kv");
    if (c.two_sources()) {
      layouts.prefix.assign_offsets(offsets_from_lengths(c.prefix_lengths), "prefix");
    }
    const Backend* const backends[] = {target.backend};
    const Problem problem = problem_of(c, c.dtypes.front());
    if (target.may_decline && !target.backend->declines(problem, target.facts).empty()) continue;
    const Ceilings ceilings = {layouts.q.num_segments(), layouts.q.total_tokens(),
                               layouts.keys().total_tokens() + layouts.prefix.total_tokens()};
    for (const auto& mode : {std::optional<Ceilings>(), std::optional<Ceilings>(ceilings)}) {
      Plan plan;
      try {
        make_plan(plan, problem, layouts, target.facts, backends, RaggedAttnBackend::AUTO, mode);
      } catch (const Error& error) {
        if (!target.may_decline || error.code() != ErrorCode::unsupported) throw;
        continue;
      }
      EXPECT_LE(plan.workspace_bytes, std::size_t{64} << 20);
      std::int64_t rows = 0;
      for (const WorkUnit& unit : plan.work_units()) rows += unit.rows;
      EXPECT_EQ(rows, layouts.q.total_tokens());
    }
  }
}

TARGET_TEST(choice, workspace_of_the_model_workloads) {
  plan_workloads(target, "bench/workloads/models.json");
}

TARGET_TEST(choice, workspace_of_the_cpu_workloads) {
  plan_workloads(target, "bench/workloads/cpu.json");
}

TARGET_TEST(choice, edge31_many_short_queries_with_long_keys) {
  Problem problem = usual_problem();
  problem.kind = AttentionKind::cross;
  problem.num_qo_heads = 32;
  StepLayouts layouts;
  layouts.q.assign_offsets(offsets_from_lengths(std::vector<std::int64_t>(4096, 1)), "q");
  layouts.kv.assign_offsets(offsets_from_lengths(std::vector<std::int64_t>(4096, 8192)), "kv");
  const Backend* const backends[] = {target.backend};
  Plan plan;
  make_plan(plan, problem, layouts, target.facts, backends);
  EXPECT_LE(plan.workspace_bytes, std::size_t{64} << 20);
}

TARGET_TEST(choice, edge15_one_block_causal_span_of_60000_tokens) {
  Problem problem = usual_problem();
  problem.kind = AttentionKind::block_causal;
  problem.block_size = 16;
  StepLayouts layouts;
  layouts.q.assign_offsets({0, 60000}, "cu_seqlens");
  layouts.kv_is_q = true;
  const Backend* const backends[] = {target.backend};
  Plan plan;
  make_plan(plan, problem, layouts, target.facts, backends);
  EXPECT_LE(plan.workspace_bytes, std::size_t{64} << 20);
  EXPECT_LE(plan.num_units, 60000 / 8);  // units of rows, nothing for each key or block
}

}  // namespace
}  // namespace ragged::test
