// Random cases. RAGGED_TEST_SEED (default 1) is the first case's seed, RAGGED_TEST_CASES how many
// follow; case i has seed RAGGED_TEST_SEED + i alone, so that one line runs a failure again.

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "support/executors.hpp"

namespace ragged::test {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

template <typename T>
T one_of(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.integer(0, static_cast<std::int64_t>(values.size()) - 1)];
}

// Mostly short, sometimes around the edge of a tile, sometimes nothing.
std::int64_t random_length(Random& random, std::int64_t longest) {
  const std::int64_t dice = random.integer(0, 9);
  if (dice == 0) return 0;
  if (dice <= 3) return random.integer(1, 9);
  if (dice <= 6)
    return std::min(longest, random.integer(1, longest / 16) * 16 + random.integer(-1, 1));
  return random.integer(1, longest);
}

std::vector<std::int64_t> random_lengths(Random& random, std::int64_t count, std::int64_t longest) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < count; ++i) lengths.push_back(random_length(random, longest));
  return lengths;
}

void choose_storage(Random& random, Case& c) {
  if (!c.own_keys() && random.chance(25)) {
    c.fusion = c.num_qo_heads == c.num_kv_heads ? Fusion::stacked : Fusion::heads;
  }
  if (random.chance(40)) c.row_padding = 8 * random.integer(0, 5);
  if (random.chance(40) && c.fusion == Fusion::none) c.head_padding = 8 * random.integer(0, 5);
  if (random.chance(10)) {
    c.row_padding += random.integer(1, 7);
    c.any_alignment = true;
  }
  if (random.chance(60)) c.tail_rows = random.integer(1, 70);
  if (random.chance(20) && c.kind != AttentionKind::prefixed) c.gap_rows = random.integer(1, 20);
  c.index = one_of(random, {IndexForm::int64, IndexForm::int32, IndexForm::strided_int64,
                            IndexForm::strided_int32});
}

Case random_case(std::uint64_t seed) {
  Random random(seed_of("random") + seed * 0x2545f4914f6cdd1dU);
  Case c;
  c.name = "random_" + std::to_string(seed);
  c.kind = one_of(random,
                  {AttentionKind::self, AttentionKind::self, AttentionKind::cross,
                   AttentionKind::block_causal, AttentionKind::prefixed, AttentionKind::prefixed});
  c.num_kv_heads = static_cast<int>(random.integer(1, 4));
  c.num_qo_heads =
      c.num_kv_heads * static_cast<int>(one_of<std::int64_t>(random, {1, 1, 2, 3, 4, 5, 7, 8}));
  c.head_dim = 8 * static_cast<int>(random.chance(50)
                                        ? one_of<std::int64_t>(random, {4, 8, 9, 10, 12, 16, 32})
                                        : random.integer(1, 32));
  c.dtypes = {one_of(random, {DType::bf16, DType::fp16, DType::fp32})};
  c.causal =
      (c.kind == AttentionKind::self || c.kind == AttentionKind::prefixed) && random.chance(50);
  if (c.kind == AttentionKind::block_causal) {
    c.block_size =
        one_of<std::int64_t>(random, {1, 2, 7, 16, 24, 50, 64, 130, random.integer(1, 200)});
  }
  // Few long segments, or many short ones.
  const bool many = random.chance(25);
  const std::int64_t count = many ? random.integer(20, 60) : random.integer(0, 6);
  const std::int64_t longest = many ? 40 : 260;
  c.q_lengths = random_lengths(random, count, longest);
  if (c.own_keys()) c.kv_lengths = random_lengths(random, count, longest);
  if (c.kind == AttentionKind::prefixed && count > 0 && random.chance(60)) {
    c.prefix_lengths = random_lengths(random, count, longest);
    if (random.chance(50)) c.kv_lengths = {};
  }
  c.values = one_of(random, {Values::normal, Values::normal, Values::normal, Values::peaked,
                             Values::rising, Values::falling, Values::equal_scores});
  if (random.chance(20)) c.sm_scale = one_of(random, {1.0, 0.01, 0.3, 0.0, -0.3});
  choose_storage(random, c);
  return c;
}

std::string describe(const Case& c) {
  std::ostringstream text;
  const auto list = [&text](const char* name, const std::vector<std::int64_t>& lengths) {
    text << ", " << name << " [";
    for (std::size_t i = 0; i < lengths.size(); ++i) text << (i > 0 ? "," : "") << lengths[i];
    text << "]";
  };
  text << to_string(c.kind) << (c.causal ? " causal, " : ", ") << c.num_qo_heads << "/"
       << c.num_kv_heads << " heads of " << c.head_dim << ", " << to_string(c.dtypes[0])
       << ", block " << c.block_size << ", values " << static_cast<int>(c.values);
  list("q", c.q_lengths);
  list("kv", c.kv_lengths);
  list("prefix", c.prefix_lengths);
  text << ", gaps " << c.gap_rows << ", padding " << c.row_padding << "/" << c.head_padding;
  return text.str();
}

void run_random_case(const Target& target, std::uint64_t seed) {
  const Case c = random_case(seed);
  SCOPED_TRACE("RAGGED_TEST_SEED=" + std::to_string(seed) +
               " RAGGED_TEST_CASES=1 ./backend_random_test --gtest_filter=" + target.name +
               "/random.*    # " + describe(c));
  const DType dtype = c.dtypes.front();
  if (target.may_decline && !target.backend->declines(problem_of(c, dtype), target.facts).empty()) {
    return;
  }
  Random random(seed);
  const Data data = make_data(c, dtype);
  if (refuses_alignment(target, data)) return;
  const Result first = execute(target, data);
  expect_right(data, first);
  ShuffledExecutor shuffled(static_cast<int>(random.integer(1, 9)), seed);
  How how;
  how.path = random.chance(50) ? Path::wrapper : Path::capacity;
  how.poison = Poison::inf;
  how.lse = random.chance(50);
  how.executor = &shuffled;
  expect_same_bits(data, execute(target, data, how), first, "by another path");
  if (c.num_segments() == 0) return;
  const auto i =
      static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(c.num_segments()) - 1));
  const Data alone = pick_segments(data, {i});
  const Result one = execute(target, alone);
  expect_same_segment({alone, one, 0}, {data, first, i}, "segment alone");
}

TARGET_TEST(random, cases) {
  const std::uint64_t seed = from_environment("RAGGED_TEST_SEED", 1);
  const std::uint64_t usual = target.slow ? 20 : target.narrowed ? 60 : 300;
  const std::uint64_t count = from_environment("RAGGED_TEST_CASES", usual);
  for (std::uint64_t i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    run_random_case(target, seed + i);
  }
}

}  // namespace
}  // namespace ragged::test
