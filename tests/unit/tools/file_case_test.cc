#include "file_case.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "atomic_file.hpp"
#include "refusal.hpp"
#include "safetensors.hpp"

namespace ragged::tools {
namespace {

using safetensors::ElementType;

TEST(ReadCase, TheActivationFiles) {
  const FileCase cross = read_case("examples/data/whisper_cross_bf16.safetensors", {});
  EXPECT_EQ(cross.c.describe(), "cross, 4 segments, 43 tokens on 540 keys, 6 heads of 64, bf16");
  EXPECT_EQ(cross.c.q_lengths, (std::vector<std::int64_t>{9, 5, 23, 6}));
  EXPECT_EQ(cross.c.kv_lengths, (std::vector<std::int64_t>{100, 54, 336, 50}));
  ASSERT_TRUE(cross.expected.has_value());
  EXPECT_EQ(cross.expected->rows.size(), 43U);
  EXPECT_EQ(cross.expected->lse.size(), 43U * 6);
  const FileCase ocr = read_case("examples/data/ppocr_rec_fp32.safetensors", {});
  EXPECT_NEAR(ocr.c.problem.sm_scale, 1 / std::sqrt(15.0), 1e-12);
  EXPECT_TRUE(
      read_case("examples/data/whisper_decoder_causal_fp16.safetensors", {}).c.problem.causal);
}

TEST(ReadCase, OptionsWinAndThenTheAnswerIsAnother) {
  const std::string path = "examples/data/ppocr_rec_fp32.safetensors";
  CaseOptions o;
  o.dtype = DType::bf16;
  FileCase file = read_case(path, o);
  EXPECT_FALSE(file.expected.has_value());
  EXPECT_EQ(file.inputs.k.dtype(), DType::bf16);
  o = {};
  o.block_size = 16;
  file = read_case(path, o);
  EXPECT_EQ(file.c.problem.kind, AttentionKind::block_causal);
  EXPECT_FALSE(file.expected.has_value());
  o = {};
  o.causal = true;
  EXPECT_TRUE(read_case(path, o).c.problem.causal);
  o = {};
  o.sm_scale = 1.0 / std::sqrt(15.0);
  EXPECT_TRUE(read_case(path, o).expected.has_value()) << "the same scale is the same question";
}

// A small file of zeros, with parts replaced or left out.
class MadeFile : public ::testing::Test {
 protected:
  MadeFile() {
    path_ =
        (std::filesystem::temp_directory_path() /
         ("ragged-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
          ".safetensors"))
            .string();
    put("q", ElementType::f32, {3, 2, 8});
    put("k", ElementType::f32, {3, 1, 8});
    put("v", ElementType::f32, {3, 1, 8});
    offsets("cu_seqlens", {0, 1, 3});
  }
  ~MadeFile() override { std::filesystem::remove(path_); }

  void put(const std::string& name, ElementType type, std::vector<std::int64_t> shape) {
    std::size_t bytes = safetensors::size_bytes(type);
    for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
    zeros_[name].assign(bytes, std::byte{0});
    erase(name);
    tensors_.push_back({name, type, std::move(shape), zeros_[name]});
  }
  void offsets(const std::string& name, const std::vector<std::int32_t>& values) {
    put(name, ElementType::i32, {static_cast<std::int64_t>(values.size())});
    std::ranges::copy(std::as_bytes(std::span(values)), zeros_[name].begin());
  }
  void erase(const std::string& name) {
    std::erase_if(tensors_, [&](const auto& tensor) { return tensor.name == name; });
  }
  FileCase read() {
    write_file(path_, safetensors::serialize(tensors_, metadata_));
    return read_case(path_, {});
  }
  std::string refused() {
    const std::string text = refusal([&] { (void)read(); });
    EXPECT_EQ(text.rfind(path_, 0), 0U) << text;
    return text;
  }

  std::string path_;
  std::map<std::string, std::vector<std::byte>> zeros_;
  std::vector<safetensors::Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

TEST_F(MadeFile, IsACaseWithoutAnAnswer) {
  const FileCase file = read();
  EXPECT_EQ(file.c.describe(), "self, 2 segments, 3 tokens, 2 heads on 1 of 8, fp32");
  EXPECT_FALSE(file.expected.has_value());
  EXPECT_DOUBLE_EQ(file.c.problem.sm_scale, 1 / std::sqrt(8.0));
}

TEST_F(MadeFile, CausalCrossOffsetsArePrefixed) {
  erase("cu_seqlens");
  offsets("q_cu_seqlens", {0, 1, 3});
  offsets("kv_cu_seqlens", {0, 0, 3});
  EXPECT_EQ(read().c.problem.kind, AttentionKind::cross);
  metadata_["causal"] = "1";
  EXPECT_EQ(read().c.problem.kind, AttentionKind::prefixed);
  EXPECT_EQ(read().c.key_lengths(), (std::vector<std::int64_t>{0, 3}));
}

TEST_F(MadeFile, APrefixMakesTwoSources) {
  put("prefix_k", ElementType::f32, {5, 1, 8});
  EXPECT_TRUE(holds(refused(), "prefix_k: expected prefix_cu_seqlens and cu_seqlens with it"));
  offsets("prefix_cu_seqlens", {0, 5, 5});
  EXPECT_TRUE(holds(refused(), "prefix_v: expected a tensor, got none"));
  put("prefix_v", ElementType::f32, {5, 1, 8});
  metadata_["causal"] = "1";
  const FileCase file = read();
  EXPECT_EQ(file.c.describe(),
            "prefixed causal, 2 segments, 3 tokens on 8 keys in two sources, 2 heads on 1 of 8, "
            "fp32");
  EXPECT_EQ(file.c.prefix_lengths, (std::vector<std::int64_t>{5, 0}));
  EXPECT_EQ(file.inputs.prefix_v.tokens(), 5);
  EXPECT_EQ(file.c.layouts().prefix.length(0), 5);

  CaseOptions o;
  o.dtype = DType::bf16;
  EXPECT_EQ(read_case(path_, o).inputs.prefix_k.dtype(), DType::bf16);
  metadata_["block_size"] = "2";
  EXPECT_TRUE(holds(refused(), "block_size: expected it without a prefix"));
  metadata_.clear();
  offsets("prefix_cu_seqlens", {0, 5});
  EXPECT_TRUE(holds(refused(), "prefix_cu_seqlens: expected the 2 segments of cu_seqlens, got 1"));
  offsets("prefix_cu_seqlens", {0, 1, 4});
  EXPECT_TRUE(holds(refused(), "prefix_cu_seqlens: expected the last offset to be the 5 rows"));
  put("prefix_k", ElementType::f32, {5, 2, 8});
  put("prefix_v", ElementType::f32, {5, 2, 8});
  EXPECT_TRUE(holds(refused(), "prefix_k: expected the 1 heads of k, got 2"));
}

TEST_F(MadeFile, MissingAndMisshapenTensorsAreNamed) {
  erase("v");
  EXPECT_TRUE(holds(refused(), "v: expected a tensor, got none"));
  put("v", ElementType::f32, {3, 8});
  EXPECT_TRUE(holds(refused(), "v: expected [tokens, heads, head_dim], got [3, 8]"));
  put("v", ElementType::f32, {3, 2, 8});
  EXPECT_TRUE(holds(refused(), "v: expected the shape of k [3, 1, 8], got [3, 2, 8]"));
  put("v", ElementType::f16, {3, 1, 8});
  EXPECT_TRUE(holds(refused(), "v: expected the dtype of q fp32, got fp16"));
  put("v", ElementType::i32, {3, 1, 8});
  EXPECT_TRUE(holds(refused(), "v: expected BF16, F16 or F32, got I32"));
}

TEST_F(MadeFile, ShapesThatNoBackendTakesAreRefused) {
  put("q", ElementType::f32, {3, 2, 12});
  EXPECT_TRUE(holds(refused(), "k: expected the head_dim of q 12, got 8"));
  put("k", ElementType::f32, {3, 1, 12});
  put("v", ElementType::f32, {3, 1, 12});
  EXPECT_TRUE(holds(refused(), "head_dim"));
  for (const char* name : {"q", "k", "v"}) put(name, ElementType::f32, {3, 0, 8});
  EXPECT_TRUE(holds(refused(), "heads"));
  put("q", ElementType::f32, {0, std::int64_t{1} << 41, 8});
  EXPECT_TRUE(holds(refused(), "extents up to 2^40"));
}

TEST_F(MadeFile, OffsetsAreChecked) {
  offsets("cu_seqlens", {0, 2, 1, 3});
  EXPECT_TRUE(holds(refused(), "cu_seqlens[2] = 1 is less than cu_seqlens[1] = 2"));
  offsets("cu_seqlens", {0, 2});
  EXPECT_TRUE(holds(refused(), "the 3 rows of its tensor, got 2"));
  offsets("cu_seqlens", {});
  EXPECT_TRUE(holds(refused(), "cu_seqlens"));
  put("cu_seqlens", ElementType::f32, {2});
  EXPECT_TRUE(holds(refused(), "cu_seqlens: expected I32 or I64, got F32"));
  put("cu_seqlens", ElementType::i32, {2, 1});
  EXPECT_TRUE(holds(refused(), "cu_seqlens: expected [segments + 1], got [2, 1]"));
  erase("cu_seqlens");
  EXPECT_TRUE(holds(refused(), "q_cu_seqlens: expected a tensor, got none"));
  offsets("q_cu_seqlens", {0, 3});
  offsets("kv_cu_seqlens", {0, 1, 3});
  EXPECT_TRUE(holds(refused(), "expected the 1 segments of q_cu_seqlens, got 2"));
  offsets("cu_seqlens", {0, 3});
  EXPECT_TRUE(holds(refused(), "got both"));
}

TEST_F(MadeFile, MetadataIsChecked) {
  metadata_["causal"] = "yes";
  EXPECT_TRUE(holds(refused(), "metadata causal: expected 0 or 1, got 'yes'"));
  metadata_ = {{"sm_scale", "big"}};
  EXPECT_TRUE(holds(refusal([&] { (void)read(); }), "metadata sm_scale: expected a finite number"));
  metadata_ = {{"block_size", "0"}};
  EXPECT_TRUE(holds(refusal([&] { (void)read(); }), "metadata block_size"));
}

TEST_F(MadeFile, AnAnswerMustFit) {
  put("out", ElementType::f32, {3, 2, 4});
  EXPECT_TRUE(holds(refused(), "out: expected [3, 2, 8], got [3, 2, 4]"));
  put("out", ElementType::f64, {3, 2, 8});
  EXPECT_TRUE(holds(refused(), "out: expected F32, got F64"));
  put("out", ElementType::f32, {3, 2, 8});
  put("lse", ElementType::f32, {2, 3});
  EXPECT_TRUE(holds(refused(), "lse: expected [3, 2], got [2, 3]"));
  put("lse", ElementType::f32, {3, 2});
  EXPECT_TRUE(read().expected.has_value());
}

}  // namespace
}  // namespace ragged::tools
