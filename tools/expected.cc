#include "expected.hpp"

#include <algorithm>
#include <random>

#include <ragged/run.hpp>

#include "backends/contract.hpp"
#include "options.hpp"
#include "parallel.hpp"

namespace ragged::tools {
namespace {

// Multiply-adds of the reference that `automatic` spends at most: some seconds on one core.
constexpr double kAutomaticFlops = 2e9;
constexpr std::int64_t kAutomaticLeastRows = 16;

// Every row of the case with its keys.
std::vector<RowKeys> all_rows(const Case& c) {
  const Mask mask = mask_of(c.problem);
  const std::vector<std::int64_t> keys = c.key_lengths();
  std::vector<RowKeys> rows;
  std::int64_t key = 0;
  for (std::size_t s = 0; s < c.q_lengths.size(); ++s) {
    const std::int64_t q_len = c.q_lengths[s];
    for (std::int64_t token = 0; token < q_len; ++token) {
      rows.push_back({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(s), token,
                      key + visible_begin(mask, token, q_len, keys[s]),
                      key + visible_end(mask, token, q_len, keys[s])});
    }
    key += keys[s];
  }
  return rows;
}

double flops_of(const Case& c, const std::vector<RowKeys>& rows) {
  double scores = 0;
  for (const RowKeys& row : rows) scores += static_cast<double>(row.key_end - row.key_begin);
  return 4.0 * scores * c.problem.num_qo_heads * c.problem.head_dim;
}

std::vector<RowKeys> sample(const Case& c, const std::vector<RowKeys>& rows, std::int64_t count,
                            std::uint64_t seed) {
  const auto longest = std::max_element(c.q_lengths.begin(), c.q_lengths.end());
  std::int64_t begin = 0;
  for (auto it = c.q_lengths.begin(); it != longest; ++it) begin += *it;
  const auto last = static_cast<std::int64_t>(rows.size()) - 1;
  std::vector<std::int64_t> chosen = {0, last, begin, begin + *longest - 1};
  // The last row of the first segment that has any, and the first row of the last such.
  chosen.push_back(c.q_lengths[static_cast<std::size_t>(rows.front().segment)] - 1);
  chosen.push_back(last + 1 - c.q_lengths[static_cast<std::size_t>(rows.back().segment)]);
  std::mt19937_64 random(seed);
  while (static_cast<std::int64_t>(chosen.size()) < count) {
    chosen.push_back(static_cast<std::int64_t>(random() % rows.size()));
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  std::vector<RowKeys> result;
  for (const std::int64_t row : chosen) result.push_back(rows[static_cast<std::size_t>(row)]);
  return result;
}

}  // namespace

CheckRows parse_check_rows(std::string_view option, std::string_view text) {
  using Kind = CheckRows::Kind;
  if (text == "auto") return {Kind::automatic, 0};
  if (text == "all") return {Kind::all, 0};
  if (text == "none") return {Kind::none, 0};
  std::int64_t rows = 0;
  try {
    rows = parse_integer(option, text, 1);
  } catch (const Error&) {
    throw Error(ErrorCode::invalid_argument,
                std::string(option) + ": expected auto, all, none or a count of rows, got '" +
                    std::string(text.substr(0, 60)) + "'");
  }
  return {Kind::some, rows};
}

std::vector<RowKeys> choose_rows(const Case& c, CheckRows which, std::uint64_t seed) {
  using Kind = CheckRows::Kind;
  if (which.kind == Kind::none) return {};
  std::vector<RowKeys> rows = all_rows(c);
  const auto total = static_cast<std::int64_t>(rows.size());
  std::int64_t count = which.kind == Kind::some ? which.rows : total;
  if (const double flops = flops_of(c, rows);
      which.kind == Kind::automatic && flops > kAutomaticFlops) {
    count = std::max(kAutomaticLeastRows, static_cast<std::int64_t>(static_cast<double>(total) *
                                                                    kAutomaticFlops / flops));
  }
  if (count >= total) return rows;
  return sample(c, rows, count, seed);
}

Expected reference_rows(const Case& c, const WideInputs& inputs, std::vector<RowKeys> rows) {
  const std::int64_t heads = c.problem.num_qo_heads;
  const std::int64_t dim = c.problem.head_dim;
  Problem problem = c.problem;
  problem.kind = AttentionKind::cross;
  problem.dtype = DType::fp32;
  problem.causal = false;
  problem.block_size = 0;
  problem.two_sources = false;
  const DeviceFacts facts = DeviceFacts::host(1);

  Expected expected;
  expected.out.resize(rows.size() * static_cast<std::size_t>(heads * dim));
  expected.lse.resize(rows.size() * static_cast<std::size_t>(heads));
  SerialExecutor serial;
  parallel_for(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    const RowKeys& row = rows[static_cast<std::size_t>(i)];
    const std::int64_t keys = row.key_end - row.key_begin;
    StepLayouts layouts;
    layouts.q.assign_offsets({0, 1}, "q_cu_seqlens");
    layouts.kv.assign_offsets({0, keys}, "kv_cu_seqlens");
    Plan plan;
    make_plan(plan, problem, layouts, facts, built_backends(), RaggedAttnBackend::REFERENCE);

    const auto rows_of = [](const Tensor& tensor, std::int64_t first, std::int64_t count) {
      return TensorView::packed(tensor.view().row(first, 0), DType::fp32, count, tensor.heads(),
                                tensor.head_dim());
    };
    RunArguments arguments;
    arguments.q = rows_of(inputs.q, row.row, 1);
    arguments.k = rows_of(inputs.k, row.key_begin, keys);
    arguments.v = rows_of(inputs.v, row.key_begin, keys);
    arguments.out =
        TensorView::packed(expected.out.data() + i * heads * dim, DType::fp32, 1, heads, dim);
    arguments.lse = LseView::packed(expected.lse.data() + i * heads, 1, heads);
    const AlignedBytes scratch(plan.workspace_bytes);
    arguments.workspace = {scratch.data(), scratch.size()};
    arguments.executor = &serial;
    run(plan, arguments);
  });
  expected.rows = std::move(rows);
  return expected;
}

}  // namespace ragged::tools
