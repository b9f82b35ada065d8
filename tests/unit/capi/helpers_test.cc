#include "capi_test.hpp"

namespace capi_test {
namespace {

ragged_padded padded_view(std::vector<float>& data, std::int64_t batch, std::int64_t max_len,
                          std::int64_t heads, std::int64_t head_dim) {
  ragged_padded padded = sized<ragged_padded>();
  padded.data = data.data();
  padded.shape[0] = batch;
  padded.shape[1] = max_len;
  padded.shape[2] = heads;
  padded.shape[3] = head_dim;
  padded.dtype = RAGGED_DTYPE_FP32;
  return padded;
}

TEST(CapiHelpers, PackAndUnpackAreInverse) {
  constexpr std::int64_t row = 2 * 8;
  std::vector<float> source(3 * 4 * row), packed(5 * row, -1.0F), back(3 * 4 * row, -1.0F);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i + 1);
  const std::int64_t lengths[] = {1, 0, 4};
  const ragged_padded from = padded_view(source, 3, 4, 2, 8);
  const ragged_tensor middle = ragged_tensor_packed(packed.data(), RAGGED_DTYPE_FP32, 5, 2, 8);
  const ragged_padded to = padded_view(back, 3, 4, 2, 8);
  ASSERT_OK(ragged_pack(&from, lengths, 3, &middle));
  EXPECT_EQ(packed[0], source[0]);
  EXPECT_EQ(packed[row], source[2 * 4 * row]);
  EXPECT_EQ(packed.back(), source.back());
  ASSERT_OK(ragged_unpack(&middle, lengths, 3, &to));
  for (std::size_t i = 0; i < back.size(); ++i) {
    const std::size_t entry = i / (4 * row), token = i / row % 4;
    const bool kept = static_cast<std::int64_t>(token) < lengths[entry];
    EXPECT_EQ(back[i], kept ? source[i] : 0.0F) << i;
  }
}

TEST(CapiHelpers, PackNamesWhatDoesNotFit) {
  std::vector<float> source(3 * 4 * 16), packed(5 * 16);
  const ragged_padded from = padded_view(source, 3, 4, 2, 8);
  const ragged_tensor to = ragged_tensor_packed(packed.data(), RAGGED_DTYPE_FP32, 5, 2, 8);
  const std::int64_t too_long[] = {1, 0, 5};
  expect_invalid(ragged_pack(&from, too_long, 3, &to), "5");
  const std::int64_t negative[] = {1, -1, 4};
  expect_invalid(ragged_pack(&from, negative, 3, &to), "-1");
  expect_invalid(ragged_pack(&from, too_long, 2, &to), "lengths");
  ragged_padded bad = from;
  bad.shape[1] = -4;
  expect_invalid(ragged_pack(&bad, too_long, 3, &to), "padded->shape[1]");
  bad = from;
  bad.dtype = RAGGED_DTYPE_NONE;
  expect_invalid(ragged_pack(&bad, too_long, 3, &to), "padded->dtype");
}

TEST(CapiHelpers, MergeWeighsByLse) {
  std::vector<float> a(16, 1.0F), b(16, 3.0F), out(16, -1.0F);
  std::vector<float> lse_a = {std::log(1.0F), -INFINITY}, lse_b = {std::log(3.0F), -INFINITY};
  std::vector<float> lse(2, 7.0F);
  const auto tensor = [](std::vector<float>& data) {
    return ragged_tensor_packed(data.data(), RAGGED_DTYPE_FP32, 1, 2, 8);
  };
  const ragged_tensor ta = tensor(a), tb = tensor(b), to = tensor(out);
  const ragged_lse la = ragged_lse_packed(lse_a.data(), 1, 2);
  const ragged_lse lb = ragged_lse_packed(lse_b.data(), 1, 2);
  const ragged_lse lo = ragged_lse_packed(lse.data(), 1, 2);
  ASSERT_OK(ragged_merge_by_lse(&ta, &la, &tb, &lb, &to, &lo));
  EXPECT_NEAR(out[0], (1.0 * 1 + 3.0 * 3) / 4, 1e-6);
  EXPECT_NEAR(lse[0], std::log(4.0), 1e-6);
  EXPECT_EQ(out[8], 0.0F);
  EXPECT_EQ(lse[1], -INFINITY);
  EXPECT_OK(ragged_merge_by_lse(&ta, &la, &tb, &lb, &to, nullptr));
  const ragged_lse wrong = ragged_lse_packed(lse_b.data(), 1, 1);
  expect_invalid(ragged_merge_by_lse(&ta, &la, &tb, &wrong, &to, &lo), "lse_b");
}

TEST(CapiHelpers, OffsetsFromLengths) {
  const std::int64_t lengths[] = {3, 0, 4};
  std::int64_t offsets[4] = {-1, -1, -1, -1};
  ASSERT_OK(ragged_offsets_from_lengths(lengths, 3, offsets));
  EXPECT_EQ(offsets[0], 0);
  EXPECT_EQ(offsets[2], 3);
  EXPECT_EQ(offsets[3], 7);
  offsets[0] = -1;
  ASSERT_OK(ragged_offsets_from_lengths(nullptr, 0, offsets));
  EXPECT_EQ(offsets[0], 0);
  const std::int64_t negative[] = {3, -2};
  expect_invalid(ragged_offsets_from_lengths(negative, 2, offsets), "-2");
  const std::int64_t large[] = {INT64_MAX, 1};
  expect_invalid(ragged_offsets_from_lengths(large, 2, offsets), "64 bits");
}

}  // namespace
}  // namespace capi_test
