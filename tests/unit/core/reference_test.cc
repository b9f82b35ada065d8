// The reference against a dense computation that shares no code with it: a mask matrix from the
// definitions in words, and whole score rows.

#include "backends/reference/reference.hpp"

#include <cmath>
#include <limits>
#include <optional>

#include "support.hpp"

namespace ragged {
namespace {

using test::pair_layouts;
using test::problem_of;
using test::self_layouts;
using test::Tensor;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Step {
  Problem problem;
  StepLayouts layouts;
};

// Whether query row r sees key c of its segment.
bool sees(const Problem& p, std::int64_t r, std::int64_t c, std::int64_t q_len,
          std::int64_t kv_len) {
  if (p.kind == AttentionKind::block_causal) return c / p.block_size <= r / p.block_size;
  if (p.causal) return c - kv_len <= r - q_len;  // distances to the last key and the last query
  return true;
}

// Tensors of a step with a few rows to spare, all filled from one seed.
struct Buffers {
  Buffers(const Step& step, unsigned seed)
      : q(step.problem.dtype, step.layouts.q.extent() + 3, step.problem.num_qo_heads,
          step.problem.head_dim),
        k(step.problem.dtype, step.layouts.keys().extent() + 3, step.problem.num_kv_heads,
          step.problem.head_dim),
        v(k),
        prefix_k(step.problem.dtype, step.layouts.prefix.extent() + 3, step.problem.num_kv_heads,
                 step.problem.head_dim),
        prefix_v(prefix_k),
        out(q),
        lse(static_cast<std::size_t>(q.shape()[0] * q.shape()[1]), -7.0f) {
    std::mt19937_64 random(seed);
    for (Tensor* tensor : {&q, &k, &v, &prefix_k, &prefix_v}) tensor->fill_normal(random);
    out.fill(-7.0f);
  }

  void run(const Step& step) {
    const Plan plan = test::plan_with(reference_backend(), step.problem, step.layouts);
    std::vector<double> storage(plan.workspace_bytes / sizeof(double) + 8);
    RunArguments arguments;
    arguments.q = q.view();
    arguments.k = k.view();
    arguments.v = v.view();
    arguments.prefix_k = prefix_k.view();
    arguments.prefix_v = prefix_v.view();
    arguments.out = out.view();
    arguments.lse = LseView::packed(lse.data(), q.shape()[0], q.shape()[1]);
    auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    address = (address + 63) / 64 * 64;
    arguments.workspace = {reinterpret_cast<void*>(address), plan.workspace_bytes};
    ragged::run(plan, arguments);
  }

  [[nodiscard]] double lse_at(std::int64_t token, std::int64_t head) const {
    return static_cast<double>(lse[static_cast<std::size_t>(token * q.shape()[1] + head)]);
  }

  Tensor q, k, v, prefix_k, prefix_v, out;
  std::vector<float> lse;
};

// One element of key (or value) row c of segment i, wherever it lies.
double key_element(const Step& step, const Tensor& prefix, const Tensor& fresh, std::int64_t i,
                   std::int64_t c, std::int64_t head, std::int64_t d) {
  const std::int64_t in_prefix = step.problem.two_sources ? step.layouts.prefix.length(i) : 0;
  if (c < in_prefix) {
    return static_cast<double>(prefix.at(step.layouts.prefix.begin(i) + c, head, d));
  }
  return static_cast<double>(fresh.at(step.layouts.keys().begin(i) + c - in_prefix, head, d));
}

// Runs the reference and compares every row with the dense computation.
void expect_dense(const Step& step, Buffers& buffers, double tolerance) {
  buffers.run(step);
  const Problem& p = step.problem;
  std::vector<bool> in_segment(static_cast<std::size_t>(buffers.q.shape()[0]), false);
  for (std::int64_t i = 0; i < step.layouts.q.num_segments(); ++i) {
    const std::int64_t q_len = step.layouts.q.length(i);
    const std::int64_t kv_len = step.layouts.kv_length(i);
    for (std::int64_t r = 0; r < q_len; ++r) {
      const std::int64_t token = step.layouts.q.begin(i) + r;
      in_segment[static_cast<std::size_t>(token)] = true;
      for (std::int64_t h = 0; h < p.num_qo_heads; ++h) {
        const std::int64_t kv_head = h * p.num_kv_heads / p.num_qo_heads;
        std::vector<double> scores(static_cast<std::size_t>(kv_len), -kInf);
        double largest = -kInf;
        for (std::int64_t c = 0; c < kv_len; ++c) {
          if (!sees(p, r, c, q_len, kv_len)) continue;
          double dot = 0;
          for (std::int64_t d = 0; d < p.head_dim; ++d) {
            dot += static_cast<double>(buffers.q.at(token, h, d)) *
                   key_element(step, buffers.prefix_k, buffers.k, i, c, kv_head, d);
          }
          scores[static_cast<std::size_t>(c)] = p.sm_scale * dot;
          largest = std::max(largest, p.sm_scale * dot);
        }
        double sum = 0;
        std::vector<double> expected(static_cast<std::size_t>(p.head_dim), 0.0);
        for (std::int64_t c = 0; c < kv_len; ++c) {
          if (!sees(p, r, c, q_len, kv_len)) continue;
          const double weight = std::exp(scores[static_cast<std::size_t>(c)] - largest);
          sum += weight;
          for (std::int64_t d = 0; d < p.head_dim; ++d) {
            expected[static_cast<std::size_t>(d)] +=
                weight * key_element(step, buffers.prefix_v, buffers.v, i, c, kv_head, d);
          }
        }
        if (sum == 0) {
          EXPECT_EQ(buffers.lse_at(token, h), -kInf);
        } else {
          const double lse = largest + std::log(sum);
          ASSERT_NEAR(buffers.lse_at(token, h), lse, 1e-6 * std::max(1.0, std::abs(lse)))
              << "segment " << i << " row " << r << " head " << h;
        }
        for (std::int64_t d = 0; d < p.head_dim; ++d) {
          const double want = sum == 0 ? 0.0 : expected[static_cast<std::size_t>(d)] / sum;
          ASSERT_NEAR(static_cast<double>(buffers.out.at(token, h, d)), want,
                      tolerance * std::max(1e-3, std::abs(want)))
              << "segment " << i << " row " << r << " head " << h << " dim " << d;
        }
      }
    }
  }
  for (std::int64_t token = 0; token < buffers.q.shape()[0]; ++token) {
    if (in_segment[static_cast<std::size_t>(token)]) continue;
    EXPECT_EQ(buffers.out.at(token, 0, 0), -7.0f) << "row " << token << " was written";
    EXPECT_EQ(buffers.lse_at(token, 0), -7.0) << "lse row " << token << " was written";
  }
}

// The most that rounding to nearest moves a value, relative to it.
double rounding(DType dtype) {
  if (dtype == DType::bf16) return 0x1p-8;
  return dtype == DType::fp16 ? 0x1p-11 : 0x1p-23;
}

void expect_dense(const Step& step, unsigned seed = 1) {
  Buffers buffers(step, seed);
  expect_dense(step, buffers, 1.01 * rounding(step.problem.dtype));
}

Problem fp32(AttentionKind kind, int qo = 4, int kv = 2, int head_dim = 24) {
  Problem problem = problem_of(kind, qo, kv, head_dim);
  problem.dtype = DType::fp32;
  return problem;
}

TEST(Reference, SelfInEveryDType) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const bool causal : {false, true}) {
      Problem problem = fp32(AttentionKind::self);
      problem.dtype = dtype;
      problem.causal = causal;
      SCOPED_TRACE(to_string(dtype));
      expect_dense({problem, self_layouts({3, 0, 17, 1})});
    }
  }
}

TEST(Reference, HeadDimsAndGroups) {
  for (const int head_dim : {8, 72, 104, 256}) {
    expect_dense({fp32(AttentionKind::self, 3, 3, head_dim), self_layouts({9, 5})});
  }
  expect_dense({fp32(AttentionKind::self, 9, 3), self_layouts({6})});
  expect_dense({fp32(AttentionKind::self, 5, 1), self_layouts({6})});
}

TEST(Reference, CrossWithEmptySidesGivesZerosAndMinusInfinity) {
  expect_dense({fp32(AttentionKind::cross), pair_layouts({5, 5, 0, 3}, {0, 7, 4, 2})});
}

TEST(Reference, CausalAlignsToTheBottomRight) {
  Problem problem = fp32(AttentionKind::prefixed);
  problem.causal = true;
  expect_dense({problem, pair_layouts({2, 5, 4}, {5, 2, 4})});
}

TEST(Reference, BlockCausalRestartsAtEverySpan) {
  for (const std::int64_t block : {1, 7, 50}) {
    Problem problem = fp32(AttentionKind::block_causal);
    problem.block_size = block;
    expect_dense({problem, self_layouts({20, 0, 9, 0, 7, 8})});
  }
}

TEST(Reference, TwoSourcesEqualTheirConcatenation) {
  for (const bool causal : {false, true}) {
    Problem problem = fp32(AttentionKind::prefixed);
    problem.two_sources = true;
    problem.causal = causal;
    StepLayouts layouts = self_layouts({3, 4, 2});
    layouts.prefix = test::layout_of({8, 0, 1});
    expect_dense({problem, layouts});
    layouts.kv = test::layout_of({1, 4, 6});
    layouts.kv_is_q = false;
    expect_dense({problem, layouts});
  }
}

TEST(Reference, GapsAreNeverTouched) {
  StepLayouts layouts;
  layouts.q.assign_spans({{12, 2}, {4, 5}}, "q");
  layouts.kv_is_q = true;
  expect_dense({fp32(AttentionKind::self), layouts});
}

TEST(Reference, RowsOfOthersNeverReachAResult) {
  const Step step{fp32(AttentionKind::self), self_layouts({4, 6, 3})};
  Buffers clean(step, 5);
  clean.run(step);
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Buffers dirty(step, 5);
    for (std::int64_t token = 0; token < dirty.k.shape()[0]; ++token) {
      if (token >= 4 && token < 10) continue;  // segment 1 stays
      for (std::int64_t d = 0; d < 24; ++d) {
        dirty.k.set(token, 0, d, poison);
        dirty.v.set(token, 1, d, poison);
      }
    }
    dirty.run(step);
    for (std::int64_t token = 4; token < 10; ++token) {
      for (std::int64_t h = 0; h < 4; ++h) {
        EXPECT_EQ(dirty.lse_at(token, h), clean.lse_at(token, h));
        for (std::int64_t d = 0; d < 24; ++d) {
          EXPECT_EQ(dirty.out.at(token, h, d), clean.out.at(token, h, d));
        }
      }
    }
  }
}

TEST(Reference, FiniteScoresOfAnySizeAreHonoured) {
  for (const float size : {1e15f, -1e15f}) {
    Problem problem = fp32(AttentionKind::self, 1, 1, 8);
    const Step step{problem, self_layouts({1})};
    Buffers buffers(step, 2);
    buffers.q.fill(size);
    buffers.k.fill(std::abs(size));
    buffers.run(step);
    const double score =
        0.125 * 8.0 * static_cast<double>(size) * std::abs(static_cast<double>(size));
    EXPECT_NEAR(buffers.lse_at(0, 0) / score, 1.0, 1e-6);
    EXPECT_EQ(buffers.out.at(0, 0, 0), buffers.v.at(0, 0, 0));
  }
}

// A key of -inf is one that nobody sees; without any other, the row is as one that sees none.
TEST(Reference, ScoresOfMinusInfinityWeighNothing) {
  const float kMinusInfinity = -std::numeric_limits<float>::infinity();
  for (const bool all : {false, true}) {
    const Step step{fp32(AttentionKind::self, 1, 1, 8), self_layouts({3})};
    Buffers buffers(step, 2);
    buffers.q.fill(1.0f);
    buffers.k.fill(0.0f);
    for (std::int64_t key = all ? 0 : 1; key < 3; ++key) buffers.k.set(key, 0, 0, kMinusInfinity);
    buffers.run(step);
    for (std::int64_t row = 0; row < 3; ++row) {
      EXPECT_EQ(buffers.lse_at(row, 0), all ? kMinusInfinity : 0.0f);
      for (std::int64_t d = 0; d < 8; ++d) {
        EXPECT_EQ(buffers.out.at(row, 0, d), all ? 0.0f : buffers.v.at(0, 0, d));
      }
    }
  }
}

TEST(Reference, StridedViewsAreReadInPlace) {
  // q, k and v are views of one [tokens, 3, heads, head_dim] buffer.
  constexpr std::int64_t kTokens = 7;
  Problem problem = fp32(AttentionKind::self, 2, 2, 8);
  Tensor fused(DType::fp32, kTokens, 6, 8);
  std::mt19937_64 random(3);
  fused.fill_normal(random);
  const Step step{problem, self_layouts({3, 4})};
  Buffers apart(step, 3);
  Tensor* parts[] = {&apart.q, &apart.k, &apart.v};
  for (std::int64_t part = 0; part < 3; ++part) {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < 8; ++d)
          parts[part]->set(t, h, d, fused.at(t, 2 * part + h, d));
      }
    }
  }
  apart.run(step);

  const Plan plan = test::plan_with(reference_backend(), step.problem, step.layouts);
  RunArguments arguments;
  TensorView* views[] = {&arguments.q, &arguments.k, &arguments.v};
  for (std::int64_t part = 0; part < 3; ++part) {
    *views[part] = {fused.view().row(0, 2 * part), DType::fp32, {kTokens, 2, 8}, {48, 8, 1}, {}};
  }
  Tensor out(DType::fp32, 2, kTokens, 8);  // heads outermost
  arguments.out = {out.view().data, DType::fp32, {kTokens, 2, 8}, {8, kTokens * 8, 1}, {}};
  alignas(64) double scratch[8];
  arguments.workspace = {scratch, sizeof(scratch)};
  run(plan, arguments);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(out.at(h, t, d), apart.out.at(t, h, d));
    }
  }
}

TEST(Reference, DeclinesAGpu) {
  const Problem problem = problem_of(AttentionKind::self);
  EXPECT_EQ(reference_backend().declines(problem, DeviceFacts::parse("h200")),
            "device must be cpu; got h200");
  EXPECT_EQ(reference_backend().declines(problem, DeviceFacts::host()), "");
}

}  // namespace
}  // namespace ragged
