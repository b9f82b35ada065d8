#pragma once

// What the tests of the C interface share: refusals by code and text, and a step whose result is
// known in closed form.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ragged/ragged.h>

namespace capi_test {

#define EXPECT_OK(call) EXPECT_EQ((call), RAGGED_OK) << ragged_last_error()
#define ASSERT_OK(call) ASSERT_EQ((call), RAGGED_OK) << ragged_last_error()

// `came` is the refusal `code` and its message holds `part`.
inline void expect_refused(int came, int code, const std::string& part) {
  EXPECT_STREQ(ragged_error_name(came), ragged_error_name(code));
  EXPECT_NE(std::string(ragged_last_error()).find(part), std::string::npos)
      << "'" << part << "' not in: " << ragged_last_error();
}
inline void expect_invalid(int came, const std::string& part) {
  expect_refused(came, RAGGED_ERROR_INVALID_ARGUMENT, part);
}

template <typename T>
T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

// The text of a call that takes (buffer, capacity, length) last.
template <typename Call>
std::string text_of(Call&& call) {
  std::size_t length = 0;
  EXPECT_OK(call(nullptr, 0, &length));
  std::string text(length + 1, '?');
  EXPECT_OK(call(text.data(), text.size(), &length));
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  return text;
}

struct Destroy {
  void operator()(ragged_wrapper* wrapper) const { ragged_wrapper_destroy(wrapper); }
  void operator()(ragged_manager* manager) const { ragged_manager_destroy(manager); }
  void operator()(ragged_executor* executor) const { ragged_executor_destroy(executor); }
};
template <typename T>
using Handle = std::unique_ptr<T, Destroy>;

inline constexpr int kHeads = 2;
inline constexpr int kHeadDim = 8;

inline ragged_wrapper_options small_options() {
  ragged_wrapper_options options = sized<ragged_wrapper_options>();
  options.num_qo_heads = kHeads;
  options.num_kv_heads = kHeads;
  options.head_dim = kHeadDim;
  options.q_data_type = RAGGED_DTYPE_FP32;
  return options;
}

inline Handle<ragged_wrapper> make_wrapper(ragged_kind kind,
                                           const ragged_wrapper_options& options) {
  ragged_wrapper* wrapper = nullptr;
  EXPECT_OK(ragged_wrapper_create(kind, &options, &wrapper));
  return Handle<ragged_wrapper>(wrapper);
}

// Keys are zero, so every visible key weighs the same: a row of `out` is the mean of the visible
// values and its LSE the logarithm of their number. Row i of the values is first_value + i.
struct KnownStep {
  std::vector<float> q, k, v, out, lse;
  ragged_tensor tq, tk, tv, to;
  ragged_lse tl;
  ragged_run_arguments arguments = sized<ragged_run_arguments>();

  static constexpr float kUntouched = -1234.5F;

  KnownStep(std::int64_t rows, std::int64_t kv_rows, float first_value = 0.0F)
      : q(count(rows), 1.0F),
        k(count(kv_rows), 0.0F),
        v(count(kv_rows)),
        out(count(rows), kUntouched),
        lse(static_cast<std::size_t>(rows * kHeads), kUntouched),
        tq(ragged_tensor_packed(q.data(), RAGGED_DTYPE_FP32, rows, kHeads, kHeadDim)),
        tk(ragged_tensor_packed(k.data(), RAGGED_DTYPE_FP32, kv_rows, kHeads, kHeadDim)),
        tv(ragged_tensor_packed(v.data(), RAGGED_DTYPE_FP32, kv_rows, kHeads, kHeadDim)),
        to(ragged_tensor_packed(out.data(), RAGGED_DTYPE_FP32, rows, kHeads, kHeadDim)),
        tl(ragged_lse_packed(lse.data(), rows, kHeads)) {
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = first_value + static_cast<float>(i / (kHeads * kHeadDim));
    }
    arguments.q = &tq;
    arguments.k = &tk;
    arguments.v = &tv;
    arguments.out = &to;
    arguments.lse = &tl;
  }
  KnownStep(const KnownStep&) = delete;
  KnownStep& operator=(const KnownStep&) = delete;

  static std::size_t count(std::int64_t rows) {
    return static_cast<std::size_t>(rows * kHeads * kHeadDim);
  }

  // Row `row` is the mean `mean` of `visible` values, in every head.
  void expect_row(std::int64_t row, double mean, std::int64_t visible) const {
    for (std::size_t i = count(row); i < count(row + 1); ++i) {
      ASSERT_NEAR(out[i], mean, 1e-5) << "row " << row;
    }
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const float came = lse[static_cast<std::size_t>(row * kHeads + head)];
      if (visible == 0) {
        ASSERT_EQ(came, -INFINITY) << "row " << row;
      } else {
        ASSERT_NEAR(came, std::log(static_cast<double>(visible)), 1e-5) << "row " << row;
      }
    }
  }
  void expect_untouched(std::int64_t row) const {
    for (std::size_t i = count(row); i < count(row + 1); ++i) {
      ASSERT_EQ(out[i], kUntouched) << "row " << row;
    }
  }
};

}  // namespace capi_test
