// Malformed archives: each is refused with a line that says what is wrong with it.

#include <gtest/gtest.h>

#include <ragged/error.hpp>

#include "safetensors.hpp"
#include "safetensors_bytes.hpp"

namespace ragged::safetensors {
namespace {

// The line that parse() refuses these bytes with; empty if it takes them.
std::string refusal(const std::vector<std::byte>& bytes) {
  try {
    (void)parse(bytes);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
}

struct Malformed {
  const char* name;
  std::string header;
  std::size_t data_bytes;
  std::string says;
};

class MalformedHeader : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedHeader, IsRefusedWithItsReason) {
  const std::string line = refusal(archive_of(GetParam().header, GetParam().data_bytes));
  EXPECT_NE(line.find(GetParam().says), std::string::npos) << "got: " << line;
}

// One tensor "a" with this dtype, shape and these offsets.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

INSTANTIATE_TEST_SUITE_P(
    Safetensors, MalformedHeader,
    ::testing::Values(
        Malformed{"NotJson", "{\"a\":", 0, "not JSON near byte"},
        Malformed{"NotUtf8", "{\"\xff\xfe\":1}", 0, "not JSON"},
        Malformed{"List", "[1]", 0, "expected a JSON object"},
        Malformed{"LeadingSpace", " {}", 0, "expected a JSON object"},
        Malformed{"TextAfter", "{} x", 0, "not JSON"},
        Malformed{"EntryIsNumber", R"({"a":1})", 0, "'a': expected an object"},
        Malformed{"Deep", R"({"a":{"shape":[[[[1]]]]}})", 0, "nested deeper"},
        Malformed{"VeryDeep", "{\"a\":" + std::string(100000, '['), 0, "nested deeper"},
        Malformed{"NameTwice",
                  R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                  1, "'a' comes twice"},
        Malformed{"FieldTwice", R"({"a":{"dtype":"U8","dtype":"I8","shape":[0]}})", 0,
                  "'dtype' comes twice"},
        Malformed{"MetadataList", R"({"__metadata__":[]})", 0, "__metadata__"},
        Malformed{"MetadataNumber", R"({"__metadata__":{"k":1}})", 0, "expected a string for 'k'"},
        Malformed{"NoDtype", R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1,
                  "'dtype' is missing"},
        Malformed{"NoShape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1,
                  "'shape' is missing"},
        Malformed{"NoOffsets", R"({"a":{"dtype":"U8","shape":[1]}})", 1,
                  "'data_offsets' is missing"},
        Malformed{"DtypeNumber", one("7", "[1]", "[0,1]"), 1, "expected a string for 'dtype'"},
        Malformed{"DtypeUnknown", one(R"("F4")", "[1]", "[0,1]"), 1, "dtype 'F4' is not known"},
        Malformed{"ShapeText", one(R"("U8")", R"("1")", "[0,1]"), 1, "expected a list for 'shape'"},
        Malformed{"ShapeNegative", one(R"("U8")", "[-1]", "[0,1]"), 1, "in 'shape'"},
        Malformed{"ShapeFraction", one(R"("U8")", "[1.0]", "[0,1]"), 1, "in 'shape'"},
        Malformed{"ShapeHuge", one(R"("U8")", "[9223372036854775808]", "[0,1]"), 1, "in 'shape'"},
        Malformed{"ShapeOverflows", one(R"("F32")", "[4294967296,4294967296]", "[0,0]"), 0,
                  "does not fit 63 bits"},
        Malformed{"ShapeWrapsToZero", one(R"("U8")", "[4294967296,4294967296,16]", "[0,0]"), 0,
                  "does not fit 63 bits"},
        Malformed{"OneOffset", one(R"("U8")", "[1]", "[0]"), 1, "expected 2 data_offsets, got 1"},
        Malformed{"OffsetsFall", one(R"("U8")", "[1]", "[1,0]"), 1, "do not lie"},
        Malformed{"OffsetNegative", one(R"("U8")", "[1]", "[-1,0]"), 1, "in 'data_offsets'"},
        Malformed{"OffsetOutside", one(R"("U8")", "[2]", "[0,2]"), 1, "do not lie in the 1 bytes"},
        Malformed{"OffsetHuge", one(R"("U8")", "[1]", "[9223372036854775806,9223372036854775807]"),
                  1, "do not lie"},
        Malformed{"SizeTooSmall", one(R"("F32")", "[2]", "[0,4]"), 4,
                  "take 8 bytes, its data_offsets hold 4"},
        Malformed{"Hole", one(R"("U8")", "[1]", "[1,2]"), 2, "1 bytes before it belong"},
        Malformed{"Trailing", one(R"("U8")", "[1]", "[0,1]"), 3, "last 2 bytes belong"},
        Malformed{"Overlap",
                  R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                  3, "'b': overlaps"},
        Malformed{"Same",
                  R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                  2, "overlaps"}),
    [](const auto& case_info) { return std::string(case_info.param.name); });

TEST(SafetensorsLength, IsCheckedAgainstWhatFollows) {
  EXPECT_NE(refusal({}).find("expected at least 8 bytes, got 0"), std::string::npos);
  EXPECT_NE(refusal(std::vector<std::byte>(7)).find("got 7"), std::string::npos);
  EXPECT_NE(refusal(std::vector<std::byte>(8)).find("expected a JSON object"), std::string::npos);
  EXPECT_NE(refusal(archive_of("{}", 0, 3)).find("the 2 bytes that follow it, got 3"),
            std::string::npos);
  EXPECT_NE(refusal(archive_of("{}", 0, ~std::uint64_t{0})).find("at most 100000000"),
            std::string::npos);
}

TEST(SafetensorsLength, EveryPrefixOfAGoodArchiveIsRefused) {
  const std::vector<std::byte> good =
      archive_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(refusal(good), "");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(refusal({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}), "")
        << "a prefix of " << size << " bytes was taken";
  }
}

TEST(SafetensorsWriter, RefusesWhatItCouldNotReadBack) {
  const std::vector<std::byte> four(4);
  EXPECT_THROW((void)serialize({{"a", ElementType::f32, {2}, four}}, {}), Error);
  EXPECT_THROW(
      (void)serialize({{"a", ElementType::f32, {1}, four}, {"a", ElementType::f32, {1}, four}}, {}),
      Error);
}

}  // namespace
}  // namespace ragged::safetensors
