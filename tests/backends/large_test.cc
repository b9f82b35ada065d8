// Counts beyond 16 and 32 bits, and steps that take seconds. Labelled `large`; too long for double
// precision throughout, so the reference and narrowed instruction sets sit them out.

#include <gtest/gtest.h>

#include "backends/check.hpp"
#include "backends/execute.hpp"
#include "backends/target_tests.hpp"
#include "support/numbers.hpp"

namespace ragged::test {
namespace {

Case one_head(std::string name, std::vector<std::int64_t> lengths, int head_dim = 64) {
  Case c;
  c.name = std::move(name);
  c.num_qo_heads = 1;
  c.num_kv_heads = 1;
  c.head_dim = head_dim;
  c.dtypes = {DType::bf16};
  c.q_lengths = std::move(lengths);
  c.sampled_rows = 400;
  return c;
}

std::vector<std::int64_t> repeated(std::int64_t count, std::int64_t length) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(count), length);
}

// Once through the wrapper, against the truth.
void expect_right_once(const Target& target, const Case& c) {
  const Data data = make_data(c, c.dtypes.front());
  How how;
  how.path = Path::wrapper;
  expect_right(data, execute(target, data, how));
}

void edge05_80000_segments(const Target& target) {
  expect_right_once(target, one_head("edge05_80000", repeated(80000, 16)));
}

void edge05_one_token_segments_around_65536(const Target& target) {
  for (const std::int64_t count : {65535, 65536, 131072}) {
    SCOPED_TRACE(count);
    const Case c = one_head("edge05_one_token", repeated(count, 1), 32);
    const Data data = make_data(c, DType::bf16);
    const Result result = execute(target, data);
    // One key: the output is its value, whatever the score.
    for (std::size_t i = 0; i < result.out.size(); ++i) {
      ASSERT_EQ(result.out[i], bf16_bits(data.v[i])) << "element " << i;
    }
    expect_right(data, result);
  }
}

void edge06_beyond_2_31_elements(const Target& target) {
  constexpr std::int64_t kRows = 90000;
  constexpr std::int64_t kRowStride = 24576;  // kRows * kRowStride is more than 2^31
  Case c = one_head("edge06", {70, 33, 50});
  c.num_qo_heads = 8;
  c.num_kv_heads = 2;
  const std::vector<std::int64_t> starts = {0, 87381 - 10, kRows - 50};  // the second crosses 2^31
  const Data data = make_data(c, DType::bf16);
  const Result want = execute(target, data);
  expect_right(data, want);

  // Rows between the segments are never written, so they take no memory.
  std::vector<Buffer> buffers;
  const auto tensor = [&](int heads, const std::vector<float>* values, std::int64_t row_stride) {
    buffers.push_back(
        target.memory->allocate(static_cast<std::size_t>(kRows * row_stride) * 2, 64));
    TensorView view = TensorView::packed(buffers.back().data(), DType::bf16, kRows, heads,
                                         c.head_dim, target.memory->device());
    view.strides[0] = row_stride;
    const std::int64_t width = std::int64_t{heads} * c.head_dim;
    for (std::size_t i = 0; values != nullptr && i < starts.size(); ++i) {
      for (std::int64_t row = 0; row < c.q_lengths[i]; ++row) {
        std::vector<std::uint16_t> bits;
        const float* from = values->data() + (data.q_begin[i] + row) * width;
        for (std::int64_t d = 0; d < width; ++d) bits.push_back(bf16_bits(from[d]));
        target.memory->upload(view.row(starts[i] + row, 0), bits.data(), bits.size() * 2);
      }
    }
    return view;
  };
  const TensorView q = tensor(c.num_qo_heads, &data.q, kRowStride);
  const TensorView k = tensor(c.num_kv_heads, &data.k, kRowStride);
  const TensorView v = tensor(c.num_kv_heads, &data.v, kRowStride);
  const std::int64_t dense = std::int64_t{c.num_qo_heads} * c.head_dim;
  const TensorView out =
      tensor(c.num_qo_heads, nullptr, target.needs_dense_out ? dense : kRowStride);
  RaggedPrefillWrapper wrapper(wrapper_options(target, c, DType::bf16));
  wrapper.plan(SegmentSpans{starts, c.q_lengths});
  wrapper.run(q, k, v, out);
  Result got;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    for (std::int64_t row = 0; row < c.q_lengths[i]; ++row) {
      std::vector<std::uint16_t> bits(static_cast<std::size_t>(c.num_qo_heads * c.head_dim));
      target.memory->download(bits.data(), out.row(starts[i] + row, 0), bits.size() * 2);
      got.out.insert(got.out.end(), bits.begin(), bits.end());
    }
  }
  expect_same_bits(data, got, want, "spread over 2.2e9 elements");
}

void edge15_one_block_causal_span_of_60000_tokens(const Target& target) {
  Case c = one_head("edge15", {60000}, 16);
  c.kind = AttentionKind::block_causal;
  c.block_size = 16;
  c.sampled_rows = 40;
  expect_right_once(target, c);
}

void edge22_32768_one_token_segments_and_a_long_one(const Target& target) {
  Case c = one_head("edge22", repeated(32768, 1), 16);
  c.q_lengths.push_back(32768);
  c.sampled_rows = 200;
  expect_right_once(target, c);
}

void edge30_262144_tokens(const Target& target) {
  Case c = one_head("edge30", repeated(262144 / 32, 32));
  c.num_qo_heads = 8;  // the ratio of 32 to 4
  expect_right_once(target, c);
  Case heads = one_head("edge30_heads", repeated(16384 / 64, 64), 128);
  heads.q_lengths.push_back(1);
  heads.num_qo_heads = 32;
  heads.num_kv_heads = 4;
  expect_right_once(target, heads);
}

void edge31_one_token_queries_with_long_keys(const Target& target) {
  Case c = one_head("edge31", repeated(4096, 1));
  c.kind = AttentionKind::cross;
  c.num_qo_heads = 4;
  c.kv_lengths = repeated(4096, 200);
  expect_right_once(target, c);
}

void edge32_8192_short_segments(const Target& target) {
  Case c = one_head("edge32", repeated(8192, 34));
  c.num_qo_heads = 2;
  c.num_kv_heads = 2;
  expect_right_once(target, c);
}

void edge32_one_long_segment_and_255_short_ones(const Target& target) {
  Case c = one_head("edge32_long", repeated(256, 64));
  c.q_lengths[0] = 16384;
  expect_right_once(target, c);
}

void register_large(const Target& target) {
  if (target.slow || target.narrowed) return;
  for (const auto& [name, body] : {
           std::pair{"edge05_80000_segments", &edge05_80000_segments},
           std::pair{"edge05_one_token_segments_around_65536",
                     &edge05_one_token_segments_around_65536},
           std::pair{"edge06_beyond_2_31_elements", &edge06_beyond_2_31_elements},
           std::pair{"edge15_one_block_causal_span_of_60000_tokens",
                     &edge15_one_block_causal_span_of_60000_tokens},
           std::pair{"edge22_32768_one_token_segments_and_a_long_one",
                     &edge22_32768_one_token_segments_and_a_long_one},
           std::pair{"edge30_262144_tokens", &edge30_262144_tokens},
           std::pair{"edge31_one_token_queries_with_long_keys",
                     &edge31_one_token_queries_with_long_keys},
           std::pair{"edge32_8192_short_segments", &edge32_8192_short_segments},
           std::pair{"edge32_one_long_segment_and_255_short_ones",
                     &edge32_one_long_segment_and_255_short_ones},
       }) {
    register_test(target, "large", name, __FILE__, __LINE__,
                  [&target, body = body] { body(target); });
  }
}

[[maybe_unused]] const bool added = add_generated_tests(register_large);

}  // namespace
}  // namespace ragged::test
