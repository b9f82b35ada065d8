// A frozen prefix beside fresh keys (edge case 16).

#include <gtest/gtest.h>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "backends/sample_cases.hpp"

namespace ragged::test {
namespace {

// The same keys in one tensor: prefix, then fresh, segment by segment.
Data joined(const Data& data) {
  Data result = data;
  result.c.prefix_lengths.clear();
  result.c.kv_lengths.clear();
  result.prefix_k.clear();
  result.prefix_v.clear();
  result.k.clear();
  result.v.clear();
  const auto width = data.c.num_kv_heads * data.c.head_dim;
  const auto append = [&](std::vector<float>& to, const std::vector<float>& from,
                          const std::vector<std::int64_t>& begin, std::size_t i) {
    to.insert(to.end(), from.begin() + begin[i] * width, from.begin() + begin[i + 1] * width);
  };
  for (std::size_t i = 0; i < data.c.num_segments(); ++i) {
    append(result.k, data.prefix_k, data.prefix_begin, i);
    append(result.k, data.k, data.kv_begin, i);
    append(result.v, data.prefix_v, data.prefix_begin, i);
    append(result.v, data.v, data.kv_begin, i);
    result.c.kv_lengths.push_back(data.keys(i));
    result.kv_begin[i + 1] = result.kv_begin[i] + data.keys(i);
  }
  result.prefix_begin.assign(data.c.num_segments() + 1, 0);
  return result;
}

TARGET_TEST(prefixed, edge16_ten_runs_on_one_plan) {
  for (const bool causal : {false, true}) {
    Case c;
    c.name = "edge16_ten_runs";
    c.kind = AttentionKind::prefixed;
    c.num_kv_heads = 1;
    c.head_dim = 256;
    if (target.slow || target.narrowed) {
      c.num_qo_heads = 2;
      c.head_dim = 64;
    }
    c.causal = causal;
    c.q_lengths = {50, 50, 51};
    c.prefix_lengths = {816, 0, 300};
    for (const DType dtype : {DType::bf16, DType::fp32}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + (causal ? " causal" : ""));
      Data data = make_data(c, dtype);
      Step first(data, *target.memory, Poison::nan);
      AnyWrapper wrapper(c, wrapper_options(target, c, dtype));
      wrapper.plan(first);
      for (std::uint64_t run = 0; run < 10; ++run) {
        const Data fresh = make_data(c, dtype, run + 1);
        data.q = fresh.q;
        data.k = fresh.k;
        data.v = fresh.v;
        Step step(data, *target.memory, run % 2 == 0 ? Poison::nan : Poison::inf);
        wrapper.run(step);
        const Result result = step.collect(true);
        if (run % 3 == 0) expect_right(data, result);
        // And the same keys joined give the same answer, if not the same bits.
        if (run == 0) expect_right(data, execute(target, joined(data)));
      }
    }
  }
}

TARGET_TEST(prefixed, frozen_prefix_shared_by_segments_of_gathered_rows) {
  // Fresh keys in offsets of their own: more of them than queries, or none.
  Case c;
  c.name = "fresh_offsets";
  c.kind = AttentionKind::prefixed;
  c.num_qo_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 80;
  c.q_lengths = {5, 1, 30};
  c.kv_lengths = {9, 0, 30};
  c.prefix_lengths = {70, 33, 0};
  for (const DType dtype : all_dtypes()) {
    const Data data = make_data(c, dtype);
    const Data one_source = joined(data);
    expect_right(one_source, execute(target, data));
    expect_right(data, execute(target, one_source));
  }
}

}  // namespace
}  // namespace ragged::test
