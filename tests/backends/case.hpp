#pragma once

// One case of the table that every backend is run against: plain data, no code. A backend that
// comes later is tested by the same table.

#include <optional>
#include <string>
#include <vector>

#include <ragged/plan.hpp>

namespace ragged::test {

// q, k and v as views of one buffer.
enum class Fusion : std::uint8_t {
  none,
  stacked,  // [T, 3, heads, head_dim]
  heads,    // [T, num_qo_heads + 2 * num_kv_heads, head_dim]
};

// How the caller holds cu_seqlens (or starts and lengths).
enum class IndexForm : std::uint8_t { int64, int32, strided_int64, strided_int32 };

// What q and k hold; v is always normal. Scores below are before sm_scale.
enum class Values : std::uint8_t {
  normal,          // mean 0, standard deviation 1
  peaked,          // q eight times larger: a few keys take all the weight
  rising,          // scores grow by 60 over a segment's keys: the running maximum never rests
  falling,         // the opposite
  equal_scores,    // all keys alike
  minus_524288,    // every score is -524,288
  huge,            // q = k = 133,120
  plus_minus_1e30  // scores of +1e30 and -1e30 in turn
};

std::vector<DType> all_dtypes();

struct Case {
  std::string name;
  AttentionKind kind = AttentionKind::self;
  int num_qo_heads = 8;
  int num_kv_heads = 8;
  int head_dim = 64;
  std::vector<DType> dtypes = all_dtypes();
  bool causal = false;
  std::int64_t block_size = 0;
  std::optional<double> sm_scale = std::nullopt;

  std::vector<std::int64_t> q_lengths = {};
  // Rows of k and v in each segment; empty: those of q. With two sources, the fresh keys.
  std::vector<std::int64_t> kv_lengths = {};
  // Prefixed only: two sources, with so many prefix keys in each segment. Empty: keys joined.
  std::vector<std::int64_t> prefix_lengths = {};

  Fusion fusion = Fusion::none;
  std::int64_t row_padding = 0;   // elements behind every row's last head
  std::int64_t head_padding = 0;  // elements behind every head
  bool any_alignment = false;     // paddings break 16-byte rows: a device may refuse them at run
  std::int64_t tail_rows = 0;     // rows of every tensor past the plan
  std::int64_t gap_rows = 0;      // rows before every segment; planned by starts and lengths
  IndexForm index = IndexForm::int64;
  Values values = Values::normal;

  // 0: as many rows are checked as a fixed budget of arithmetic allows. Otherwise the case is too
  // long for double precision throughout: this many (row, head) pairs are checked, and the
  // `reference` backend is not run.
  std::int64_t sampled_rows = 0;
  // Empty: the answer is right. Otherwise planning is refused with a text that holds every part.
  std::vector<std::string> refused = {};

  [[nodiscard]] std::size_t num_segments() const { return q_lengths.size(); }
  [[nodiscard]] bool two_sources() const { return !prefix_lengths.empty(); }
  [[nodiscard]] bool own_keys() const {
    return kind == AttentionKind::cross || kind == AttentionKind::prefixed;
  }
  [[nodiscard]] const std::vector<std::int64_t>& key_lengths() const {
    return kv_lengths.empty() ? q_lengths : kv_lengths;
  }
};

// The tables, by chapter of the cases that they hold.
std::vector<Case> shape_cases();
std::vector<Case> segment_cases();
std::vector<Case> mask_cases();
std::vector<Case> value_cases();
std::vector<Case> storage_cases();
std::vector<Case> refused_cases();

// The problem that a case poses in one dtype.
Problem problem_of(const Case& c, DType dtype);

}  // namespace ragged::test
