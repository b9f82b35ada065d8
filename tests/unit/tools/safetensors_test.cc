#include "safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <ragged/error.hpp>

#include "atomic_file.hpp"
#include "safetensors_bytes.hpp"

namespace ragged::safetensors {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const std::vector<float> q = {1.0F, -2.5F, 3.0F, 0.0F, 5.0F, 6.0F};
  const std::vector<std::uint16_t> k = {1, 2, 3};
  const std::vector<std::int64_t> cu = {0, 2};
  const std::vector<std::byte> bytes =
      serialize({{"k", ElementType::bf16, {3}, bytes_of(k)},
                 {"q", ElementType::f32, {2, 3}, bytes_of(q)},
                 {"cu_seqlens", ElementType::i64, {2}, bytes_of(cu)},
                 {"none", ElementType::f16, {0, 7}, {}}},
                {{"sm_scale", "0.125"}, {"name", "with \"quotes\" and \xC3\xA9"}});

  const Archive archive = parse(bytes);
  EXPECT_EQ(archive.metadata.at("sm_scale"), "0.125");
  EXPECT_EQ(archive.metadata.at("name"), "with \"quotes\" and \xC3\xA9");
  ASSERT_EQ(archive.tensors.size(), 4U);
  const Tensor* read = archive.find("q");
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->type, ElementType::f32);
  EXPECT_EQ(read->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read->elements(), 6);
  EXPECT_EQ(std::memcmp(read->data.data(), q.data(), 24), 0);
  EXPECT_EQ(archive.find("none")->elements(), 0);
  EXPECT_EQ(archive.find("missing"), nullptr);
  // Every tensor is aligned to its element size, counted from the start of the file.
  for (const Tensor& tensor : archive.tensors) {
    const auto at = static_cast<std::size_t>(tensor.data.data() - bytes.data());
    EXPECT_TRUE(tensor.data.empty() || at % size_bytes(tensor.type) == 0) << tensor.name;
  }
}

TEST(Safetensors, AScalarHasOneElement) {
  const Archive archive =
      parse(archive_of(R"({"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8));
  EXPECT_EQ(archive.find("a")->elements(), 1);
}

TEST(Safetensors, AnArchiveMayBeEmpty) {
  EXPECT_TRUE(parse(archive_of("{}", 0)).tensors.empty());
  EXPECT_TRUE(parse(archive_of("{}    ", 0)).tensors.empty());
}

TEST(Safetensors, KnowsEveryType) {
  for (int i = 0; i <= static_cast<int>(ElementType::f64); ++i) {
    const auto type = static_cast<ElementType>(i);
    const std::size_t size = size_bytes(type);
    const Archive archive =
        parse(archive_of(R"({"a":{"dtype":")" + std::string(to_string(type)) +
                             R"(","shape":[1],"data_offsets":[0,)" + std::to_string(size) + "]}}",
                         size));
    EXPECT_EQ(archive.find("a")->type, type);
  }
}

TEST(Safetensors, ReadsTheActivationFiles) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("examples/data")) {
    if (entry.path().extension() != ".safetensors") continue;
    const File file(entry.path().string());
    ++files;
    EXPECT_FALSE(file.archive().tensors.empty()) << entry.path();
    if (entry.path().stem() == "whisper_cross_bf16") {
      EXPECT_EQ(file.archive().find("k")->shape, (std::vector<std::int64_t>{540, 6, 64}));
      EXPECT_EQ(file.archive().find("k")->type, ElementType::bf16);
      EXPECT_EQ(file.archive().metadata.at("sm_scale"), "0.125");
    }
  }
  EXPECT_EQ(files, 8);
}

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    folder_ = std::filesystem::temp_directory_path() /
              ("ragged-file-test-" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(FileTest, AWrittenFileIsWholeAndAlone) {
  const std::string path = (folder_ / "a.safetensors").string();
  const std::vector<std::byte> bytes = serialize({}, {{"k", "v"}});
  tools::write_file(path, "something older");
  tools::write_file(path, bytes);
  EXPECT_EQ(File(path).archive().metadata.at("k"), "v");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FileTest, AFailedWriteLeavesNothing) {
  std::filesystem::create_directories(folder_ / "taken");
  try {
    tools::write_file((folder_ / "taken").string(), "text");  // a folder cannot be replaced
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("taken"), std::string::npos);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_THROW(tools::write_file((folder_ / "no" / "such").string(), "text"), Error);
}

TEST_F(FileTest, AFileThatCannotBeReadIsNamed) {
  const std::string missing = (folder_ / "missing.safetensors").string();
  for (const std::string& path : {missing, folder_.string()}) {
    try {
      const File file(path);
      FAIL() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind(path + ": ", 0), 0U) << error.what();
    }
  }
}

}  // namespace
}  // namespace ragged::safetensors
