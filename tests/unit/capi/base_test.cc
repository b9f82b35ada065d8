#include <thread>

#include "capi_test.hpp"

namespace capi_test {
namespace {

TEST(CapiBase, VersionIsOneStory) {
  std::int32_t major = -1, minor = -1, patch = -1;
  EXPECT_OK(ragged_version(&major, &minor, &patch));
  EXPECT_OK(ragged_version(nullptr, nullptr, nullptr));
  EXPECT_EQ(ragged_version_text(),
            std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch));
}

TEST(CapiBase, EveryCodeHasAName) {
  EXPECT_STREQ(ragged_error_name(RAGGED_OK), "ok");
  EXPECT_STREQ(ragged_error_name(RAGGED_ERROR_INVALID_ARGUMENT), "invalid_argument");
  EXPECT_STREQ(ragged_error_name(RAGGED_ERROR_NOT_PLANNED), "not_planned");
  EXPECT_STREQ(ragged_error_name(RAGGED_ERROR_OUT_OF_MEMORY), "out_of_memory");
  EXPECT_STREQ(ragged_error_name(RAGGED_ERROR_INTERNAL), "internal");
  EXPECT_STREQ(ragged_error_name(9), "unknown");
  EXPECT_STREQ(ragged_error_name(-1), "unknown");
}

TEST(CapiBase, NamesRoundTrip) {
  for (ragged_dtype dtype = RAGGED_DTYPE_BF16; dtype <= RAGGED_DTYPE_FP32; ++dtype) {
    ragged_dtype came = RAGGED_DTYPE_NONE;
    EXPECT_OK(ragged_dtype_parse(ragged_dtype_name(dtype), &came));
    EXPECT_EQ(came, dtype);
  }
  for (ragged_kind kind = RAGGED_KIND_SELF; kind <= RAGGED_KIND_PREFIXED; ++kind) {
    ragged_kind came = -1;
    EXPECT_OK(ragged_kind_parse(ragged_kind_name(kind), &came));
    EXPECT_EQ(came, kind);
  }
  for (ragged_backend backend = RAGGED_BACKEND_AUTO; backend <= RAGGED_BACKEND_CUDNN; ++backend) {
    ragged_backend came = -1;
    EXPECT_OK(ragged_backend_parse(ragged_backend_name(backend), &came));
    EXPECT_EQ(came, backend);
  }
  EXPECT_STREQ(ragged_dtype_name(RAGGED_DTYPE_NONE), "unknown");
  EXPECT_STREQ(ragged_dtype_name(256), "unknown");
  EXPECT_STREQ(ragged_kind_name(-1), "unknown");
  EXPECT_STREQ(ragged_backend_name(256), "unknown");
  ragged_dtype dtype = RAGGED_DTYPE_NONE;
  expect_invalid(ragged_dtype_parse("fp8", &dtype), "'fp8'");
  ragged_backend backend = -1;
  expect_invalid(ragged_backend_parse("tpu", &backend), "'tpu'");
  ragged_device device = {};
  EXPECT_OK(ragged_device_parse("cuda:1", &device));
  EXPECT_EQ(device.kind, RAGGED_DEVICE_CUDA);
  EXPECT_EQ(device.index, 1);
  expect_invalid(ragged_device_parse("tpu", &device), "tpu");
}

TEST(CapiBase, LastErrorBelongsToItsThread) {
  std::int32_t padded = 0;
  expect_invalid(ragged_padded_head_dim(300, &padded), "300");
  std::thread([] {
    EXPECT_STREQ(ragged_last_error(), "");
    std::int32_t other = 0;
    expect_invalid(ragged_padded_head_dim(400, &other), "400");
  }).join();
  EXPECT_NE(std::string(ragged_last_error()).find("300"), std::string::npos);
  // A call that is not refused leaves the message alone.
  EXPECT_OK(ragged_padded_head_dim(72, &padded));
  EXPECT_EQ(padded, 128);
  EXPECT_NE(std::string(ragged_last_error()).find("300"), std::string::npos);
}

TEST(CapiText, GoesThroughTheCallersBuffer) {
  const std::string whole = "video<-text";
  EXPECT_EQ(text_of([](char* buffer, std::size_t capacity, std::size_t* length) {
              return ragged_cross_label("video", "text", buffer, capacity, length);
            }),
            whole);

  // An exact buffer, without `length`; nothing beyond the capacity is written.
  std::vector<char> exact(whole.size() + 2, '?');
  EXPECT_OK(ragged_cross_label("video", "text", exact.data(), whole.size() + 1, nullptr));
  EXPECT_STREQ(exact.data(), whole.c_str());
  EXPECT_EQ(exact.back(), '?');

  // One byte short: refused with both numbers, the length told, an empty text.
  std::size_t length = 0;
  expect_refused(ragged_cross_label("video", "text", exact.data(), whole.size(), &length),
                 RAGGED_ERROR_OUT_OF_RANGE, "12 bytes; capacity is 11");
  EXPECT_EQ(length, whole.size());
  EXPECT_STREQ(exact.data(), "");

  expect_refused(ragged_cross_label("video", "text", exact.data(), 0, nullptr),
                 RAGGED_ERROR_OUT_OF_RANGE, "capacity is 0");
  expect_invalid(ragged_cross_label("video", "text", nullptr, 3, &length), "buffer");
  expect_invalid(ragged_cross_label("video", "text", nullptr, 0, nullptr), "buffer and length");
}

}  // namespace
}  // namespace capi_test
