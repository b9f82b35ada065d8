// Every built peer against the reference: a peer that is wrong is no peer.

#include "bench/peers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "backends/reference/reference.hpp"
#include "bench/softmax_rows.hpp"
#include "unit/core/support.hpp"

namespace ragged::bench {

// Names of tests hold no addresses.
static void PrintTo(const Peer* peer, std::ostream* stream) { *stream << peer->name(); }

namespace {

using test::pair_layouts;
using test::self_layouts;
using test::Tensor;

class Threads final : public Executor {
 public:
  [[nodiscard]] int concurrency() const noexcept override { return 2; }
  void run(int num_workers, void (*task)(void*, int), void* context) override {
    std::vector<std::thread> threads;
    for (int worker = 1; worker < num_workers; ++worker)
      threads.emplace_back(task, context, worker);
    task(context, 0);
    for (auto& thread : threads) thread.join();
  }
};

struct Case {
  const char* name;
  Problem problem;
  StepLayouts layouts;
};

Problem problem(AttentionKind kind, int num_qo_heads, int num_kv_heads, int head_dim,
                bool causal = false, std::int64_t block_size = 0) {
  Problem result = test::problem_of(kind, num_qo_heads, num_kv_heads, head_dim);
  result.dtype = DType::fp32;
  result.causal = causal;
  result.block_size = block_size;
  result.sm_scale = 1.0 / std::sqrt(head_dim);
  return result;
}

// Lengths around the row blocks (64, 128), the key block (256) and the lanes, and empty ones.
std::vector<Case> cases() {
  const auto ragged = [] { return self_layouts({3, 0, 64, 129, 1, 257, 16, 0}); };
  return {
      {"self", problem(AttentionKind::self, 3, 3, 64), ragged()},
      {"self, D 72", problem(AttentionKind::self, 2, 2, 72), ragged()},
      {"self, D 8", problem(AttentionKind::self, 2, 1, 8), ragged()},
      {"self, D 256", problem(AttentionKind::self, 2, 2, 256), ragged()},
      {"causal, grouped", problem(AttentionKind::self, 6, 2, 80, true), ragged()},
      {"causal, long", problem(AttentionKind::self, 1, 1, 32, true), self_layouts({700})},
      {"block-causal", problem(AttentionKind::block_causal, 2, 2, 64, false, 50), ragged()},
      {"block-causal, long", problem(AttentionKind::block_causal, 1, 1, 64, false, 100),
       self_layouts({777, 5})},
      {"cross, empty keys", problem(AttentionKind::cross, 2, 2, 40),
       pair_layouts({5, 130, 0, 7}, {300, 0, 9, 513})},
      {"prefixed, causal", problem(AttentionKind::prefixed, 4, 1, 128, true),
       pair_layouts({5, 130, 40}, {300, 131, 40})},
      {"prefixed, rows without keys", problem(AttentionKind::prefixed, 2, 2, 64, true),
       pair_layouts({100, 3}, {30, 0})},
  };
}

void expect_near(const Tensor& got, const Tensor& expected, double limit, const std::string& what) {
  const auto [tokens, heads, head_dim] = got.shape();
  double worst = 0.0;
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t d = 0; d < head_dim; ++d) {
        const double error =
            std::abs(double{got.at(token, head, d)} - double{expected.at(token, head, d)});
        ASSERT_FALSE(std::isnan(error)) << what << ", token " << token << ", head " << head;
        worst = std::max(worst, error);
      }
    }
  }
  EXPECT_LT(worst, limit) << what;
}

class PeerTest : public ::testing::TestWithParam<const Peer*> {};

TEST_P(PeerTest, AgreesWithTheReference) {
  const Peer& peer = *GetParam();
  std::mt19937_64 random(7);
  for (const Case& c : cases()) {
    ASSERT_EQ(peer.declines(c.problem), "") << c.name;
    const Plan plan = test::plan_with(reference_backend(), c.problem, c.layouts);
    const std::int64_t rows = c.layouts.q.extent(), keys = c.layouts.keys().extent();
    const std::int64_t dim = c.problem.head_dim;
    Tensor q(DType::fp32, rows, c.problem.num_qo_heads, dim);
    Tensor k(DType::fp32, keys, c.problem.num_kv_heads, dim);
    Tensor v(DType::fp32, keys, c.problem.num_kv_heads, dim);
    for (Tensor* tensor : {&q, &k, &v}) tensor->fill_normal(random);
    Tensor expected(DType::fp32, rows, c.problem.num_qo_heads, dim);
    RunArguments arguments;
    arguments.q = q.view();
    arguments.k = k.view();
    arguments.v = v.view();
    arguments.out = expected.view();
    std::vector<char> scratch(plan.workspace_bytes + 64);
    arguments.workspace = {
        scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64,
        plan.workspace_bytes};
    Threads threads;
    arguments.executor = &threads;
    run(plan, arguments);

    for (const int count : {1, 2}) {
      Tensor out(DType::fp32, rows, c.problem.num_qo_heads, dim);
      out.fill(std::nanf(""));  // a row that is not written, or read before, shows
      arguments.out = out.view();
      const auto run = peer.prepare(plan, count);
      for (int again = 0; again < 2; ++again) run->run(arguments);
      expect_near(
          out, expected, 5e-6,
          std::string(peer.name()) + ", " + c.name + ", " + std::to_string(count) + " threads");
    }
  }
}

TEST_P(PeerTest, DeclinesWhatItLacksAndRefusesLse) {
  const Peer& peer = *GetParam();
  EXPECT_FALSE(peer.version().empty());
  Problem bf16 = problem(AttentionKind::self, 1, 1, 64);
  bf16.dtype = DType::bf16;
  EXPECT_EQ(peer.declines(bf16), "dtype: expected fp32, got bf16");
  Problem two = problem(AttentionKind::prefixed, 1, 1, 64);
  two.two_sources = true;
  EXPECT_NE(peer.declines(two), "");

  const Plan plan = test::plan_with(reference_backend(), problem(AttentionKind::self, 1, 1, 64),
                                    self_layouts({4}));
  RunArguments arguments;
  float lse[4];
  arguments.lse = LseView::packed(lse, 4, 1);
  const auto run = peer.prepare(plan, 1);
  test::expect_text(test::refusal(ErrorCode::invalid_argument, [&] { run->run(arguments); }),
                    "lse");
}

INSTANTIATE_TEST_SUITE_P(Built, PeerTest, ::testing::ValuesIn(built_peers()), [](const auto& peer) {
  std::string name(peer.param->name());
  std::erase(name, '-');
  return name;
});

TEST(Peers, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Peer* peer : built_peers()) EXPECT_TRUE(names.insert(peer->name()).second);
  EXPECT_FALSE(names.empty());
}

TEST(SoftmaxRows, MatchesDoubleOverTwoBlocks) {
  constexpr std::int64_t kKeys = 100, kRows = 3;
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal(0.0F, 20.0F);  // spreads the weights over many binades
  std::vector<float> first(kRows * 2 * kScorePad), second(kRows * 2 * kScorePad);
  for (float& value : first) value = normal(random);
  for (float& value : second) value = normal(random);
  const std::vector<float> scores[] = {first, second};
  const std::int64_t visible_first[kRows] = {kKeys, kKeys, 7};
  const std::int64_t visible_second[kRows] = {kKeys, 33, 0};
  RowState states[kRows];
  float rescale_first[kRows], rescale_second[kRows];
  const float scale = 1.4426950408889634F;
  softmax_rows(first.data(), 2 * kScorePad, kRows, kKeys, visible_first, scale, states,
               rescale_first);
  softmax_rows(second.data(), 2 * kScorePad, kRows, kKeys, visible_second, scale, states,
               rescale_second);
  for (std::int64_t row = 0; row < kRows; ++row) {
    double max = -1e300, sum = 0.0;
    const std::int64_t visible[] = {visible_first[row], visible_second[row]};
    for (int block = 0; block < 2; ++block) {
      for (std::int64_t key = 0; key < visible[block]; ++key) {
        max = std::max(max, double{scores[block][std::size_t(row * 2 * kScorePad + key)]});
      }
    }
    for (int block = 0; block < 2; ++block) {
      for (std::int64_t key = 0; key < visible[block]; ++key) {
        sum += std::exp(double{scores[block][std::size_t(row * 2 * kScorePad + key)]} - max);
      }
    }
    for (int block = 0; block < 2; ++block) {
      for (std::int64_t key = 0; key < kKeys; ++key) {
        const std::size_t at = std::size_t(row * 2 * kScorePad + key);
        const double expected =
            key < visible[block] ? std::exp(double{scores[block][at]} - max) / sum : 0.0;
        const double weight =
            block == 0 ? double{first[at]} * double{rescale_second[row]} : double{second[at]};
        EXPECT_NEAR(weight / double{states[row].sum}, expected, 3e-5 * expected + 1e-30)
            << "row " << row << ", block " << block << ", key " << key;
      }
    }
  }
}

}  // namespace
}  // namespace ragged::bench
