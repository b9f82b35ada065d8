// The program as a user meets it: exit status, output, and one line for each mistake.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "atomic_file.hpp"
#include "program.hpp"
#include "refusal.hpp"
#include "safetensors.hpp"

namespace ragged::tools {
namespace {

const std::string kData = "examples/data/";

// Fails unless the arguments are refused with exit status 2, nothing on standard output, and one
// line that holds `part`.
void expect_refused(const std::vector<std::string>& arguments, const std::string& part) {
  const Finished finished = run_program(arguments);
  EXPECT_EQ(finished.status, 2) << part << finished.err;
  EXPECT_EQ(finished.out, "");
  EXPECT_TRUE(holds(finished.err, part));
  EXPECT_EQ(finished.err.rfind("ragged: ", 0), 0U);
  EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1);
}

class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() /
            ("ragged-cli-test-" +
             std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

// Its q, k and v would be gone.
TEST(Cli, TheOutputIsNotTheInput) {
  const Folder folder;
  const std::string file = folder.file("x.safetensors");
  std::filesystem::copy_file(kData + "minilm_layer0_fp32.safetensors", file);
  const auto size = std::filesystem::file_size(file);
  expect_refused({"run", "--input", file, "--output", folder.file("./x.safetensors")},
                 "--output: expected another file than --input");
  EXPECT_EQ(std::filesystem::file_size(file), size);
}

// One program runs with and without a GPU, and without one it says what is missing.
TEST(Cli, AGpuThatIsNotHere) {
  ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  expect_refused({"bench", "--suite", "models", "--device", "cuda"},
                 "--device: cuda:0 is not here: ");
  expect_refused({"run", "--lengths", "3", "--device", "cuda:1"}, "--device: cuda:1 is not here: ");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  expect_refused({"bench", "--suite", "cpu", "--device", "gpu"}, "--device: ");
  expect_refused({"bench", "--suite", "cpu", "--device", "cuda", "--threads", "2"},
                 "--threads: expected --device cpu");
  expect_refused({"bench", "--suite", "cpu", "--device", "cuda", "--peers"}, "--peers: ");
}

TEST(Cli, EveryMistakeIsOneLine) {
  expect_refused({}, "expected one of run, plan, info, bench, draw; got none; 'ragged --help'");
  expect_refused({"walk"}, "got 'walk'");
  expect_refused({"run"}, "expected --input, --lengths or --workload");
  expect_refused({"run", "--lengths"}, "--lengths: expected a value, got none");
  expect_refused({"run", "--lengths", "3", "--lengths", "4"}, "--lengths: expected it once");
  expect_refused({"run", "--lengthz", "3"}, "--lengthz: expected an option of 'ragged run --help'");
  expect_refused({"run", "--lengths", "3", "4"}, "4: expected an option");
  expect_refused({"run", "--lengths", "3,x"}, "--lengths: expected token counts");
  expect_refused({"run", "--lengths", "3", "--head-dim", "100"}, "100");
  expect_refused({"run", "--lengths", "3", "--kv-heads", "3"}, "num_kv_heads");
  expect_refused({"run", "--lengths", "3", "--dtype", "fp8"}, "--dtype: expected bf16");
  expect_refused({"run", "--lengths", "3", "--backend", "gpu"}, "--backend: expected auto");
  expect_refused({"run", "--lengths", "3", "--device", "tpu"}, "--device: ");
  expect_refused({"run", "--lengths", "3", "--check", "some"}, "--check: expected auto, all");
  expect_refused({"run", "--lengths", "3", "--seed", "-1"}, "--seed: expected an integer");
  expect_refused({"plan", "--workload", "siglip-9"}, "; nearest: siglip-8");
  expect_refused({"plan", "--workload", "qwen3"}, "; nearest: qwen3vl-image, qwen3vl-mixed\n");
  expect_refused({"plan", "--workload", "nope"}, "got 'nope'\n");
  expect_refused({"plan", "--lengths", "3", "--device", "cpu:avx2:4", "--threads", "8"},
                 "--threads: expected it or the threads of --device, got 8 and 'cpu:avx2:4'");
  expect_refused({"bench", "--workload", "W8", "--simd", "mmx"}, "--simd: expected a target");
  expect_refused({"bench", "--workload", "W8", "--json", "no/such/file"}, "no/such/file: expected");
  expect_refused({"run", "--lengths", "3", "--output", "/dev/null"}, "/dev/null: expected a path");
  expect_refused({"run", "--input", "no/such.safetensors"}, "no/such.safetensors: expected");
  expect_refused({"run", "--input", "CMakeLists.txt"}, "CMakeLists.txt: safetensors: ");
  expect_refused({"run", "--input", kData + "whisper_cross_bf16.safetensors", "--heads", "4"},
                 "--heads: expected it without a file");
}

TEST(Cli, WhatNoBackendServesIsStatus1) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", "--lengths", "3", "--backend", "cudnn"},
                                             {"draw", "--lengths", "3", "--backend", "cudnn"}}) {
    const Finished done = run_program(arguments);
    EXPECT_EQ(done.status, 1);
    EXPECT_EQ(done.out, "");
    EXPECT_TRUE(holds(done.err, "cudnn is not built\n"));
  }
  const Finished plan =
      run_program({"plan", "--lengths", "3", "--device", "h200", "--backend", "cpu"});
  EXPECT_EQ(plan.status, 1);
  EXPECT_TRUE(holds(plan.out, "not in this build: "));
  const Finished bench =
      run_program({"bench", "--workload", "W8", "--backend", "cudnn", "--seconds", "0"});
  EXPECT_EQ(bench.status, 1);
  EXPECT_TRUE(holds(bench.out, "W8: left out: "));
}

TEST(Cli, HelpSaysItWithExamples) {
  EXPECT_EQ(run_program({"--help"}).status, 0);
  EXPECT_TRUE(holds(run_program({"--version"}).out, "ragged "));
  for (const char* command : {"run", "plan", "info", "bench", "draw"}) {
    const Finished help = run_program({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.err, "");
    // Each option's line, but that of --help itself, ends with an example.
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) {
      const bool is_option = line.rfind("  --", 0) == 0;
      EXPECT_TRUE(!is_option || holds(line, "Example: ")) << command;
    }
  }
}

TEST(CliRun, ARealLayerIsRight) {
  const Finished done =
      run_program({"run", "--input", kData + "whisper_decoder_causal_fp16.safetensors"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(holds(done.out, "self causal, 5 segments, 57 tokens, 6 heads of 64, fp16"));
  EXPECT_TRUE(holds(done.out, "against  the file's out and lse"));
  EXPECT_TRUE(holds(done.out, "twice a plain fp16 computation's error"));
  EXPECT_EQ(done.out.substr(done.out.size() - 6), "right\n");
}

TEST(CliRun, AWrongScaleIsNotTheFilesAnswer) {
  // Options win; what the file holds then answers another question and is not compared with.
  const Finished done = run_program(
      {"run", "--input", kData + "whisper_decoder_causal_fp16.safetensors", "--sm-scale", "0.25"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(holds(done.out, "against  the reference"));
}

TEST(CliRun, AFileWithAWrongAnswerIsFoundOut) {
  const Folder folder;
  const safetensors::File file(kData + "whisper_decoder_causal_fp16.safetensors");
  std::vector<safetensors::Tensor> tensors = file.archive().tensors;
  std::vector<std::byte> out;
  for (safetensors::Tensor& tensor : tensors) {
    if (tensor.name != "out") continue;
    out.assign(tensor.data.begin(), tensor.data.end());
    const float wrong = 77.0F;  // segment 1, token 3, head 2, dim 5
    std::memcpy(out.data() + 4 * (((9 + 3) * 6 + 2) * 64 + 5), &wrong, 4);
    tensor.data = out;
  }
  const std::string path = folder.file("wrong.safetensors");
  const std::vector<std::byte> bytes = safetensors::serialize(tensors, file.archive().metadata);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const std::string output = folder.file("out.safetensors");
  const Finished done = run_program({"run", "--input", path, "--output", output});
  EXPECT_EQ(done.status, 1);
  EXPECT_TRUE(holds(done.out, "at segment 1, token 3, head 2, dim 5 (expected 77, got "));
  EXPECT_TRUE(holds(done.out, "WRONG\n"));
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(CliRun, TheOutputHoldsTheAnswer) {
  const Folder folder;
  const std::string output = folder.file("out.safetensors");
  const Finished done =
      run_program({"run", "--input", kData + "whisper_cross_bf16.safetensors", "--output", output});
  ASSERT_EQ(done.status, 0) << done.err;
  const safetensors::File file(output);
  EXPECT_EQ(file.archive().find("out")->shape, (std::vector<std::int64_t>{43, 6, 64}));
  EXPECT_EQ(file.archive().find("out")->type, safetensors::ElementType::bf16);
  EXPECT_EQ(file.archive().find("lse")->shape, (std::vector<std::int64_t>{43, 6}));
  EXPECT_EQ(file.archive().metadata.at("sm_scale"), "0.125");
}

TEST(CliRun, NoOutputAfterAMistake) {
  const Folder folder;
  const std::string output = folder.file("out.safetensors");
  expect_refused({"run", "--lengths", "3", "--head-dim", "100", "--output", output}, "100");
  expect_refused({"run", "--lengths", "3", "--output", folder.file("no/such/out")},
                 "expected a path that can be written");
  EXPECT_TRUE(folder.empty());
}

TEST(CliRun, EveryKindFromLengths) {
  const std::vector<std::vector<std::string>> kinds = {
      {"--lengths", "3,0,17"},
      {"--lengths", "3,0,17", "--causal"},
      {"--lengths", "3,0,17", "--block-size", "4"},
      {"--lengths", "3,0,17", "--kv-lengths", "5,6,0"},
      {"--lengths", "3,0,17", "--prefix-lengths", "5,6,0", "--causal"},
      {"--lengths", "3,0,17", "--prefix-lengths", "5,6,0", "--two-sources"},
      {"--lengths", ""}};
  for (std::vector<std::string> arguments : kinds) {
    arguments.insert(arguments.begin(), "run");
    for (const char* dtype : {"fp32", "bf16"}) {
      std::vector<std::string> all = arguments;
      all.insert(all.end(), {"--dtype", dtype, "--heads", "4", "--kv-heads", "2", "--head-dim",
                             "16", "--check", "all", "--one-line"});
      const Finished done = run_program(all);
      EXPECT_EQ(done.status, 0) << done.out << done.err;
      EXPECT_TRUE(holds(done.out, "; right\n"));
    }
  }
}

TEST(CliRun, ALargeCaseIsCheckedInPart) {
  const Finished done = run_program({"run", "--lengths", "2x100", "--check", "10"});
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  EXPECT_TRUE(holds(done.out, " of 200 rows"));
}

TEST(CliRun, AsJson) {
  const Finished done = run_program({"run", "--lengths", "3,17", "--head-dim", "16", "--json"});
  EXPECT_EQ(done.status, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json.at("case"), "self, 2 segments, 20 tokens, 8 heads of 16, fp32");
  EXPECT_EQ(json.at("right"), true);
  EXPECT_GT(json.at("us"), 0.0);
  EXPECT_EQ(json.at("out").at("compared"), 20 * 8 * 16);
  EXPECT_LE(json.at("out").at("largest_error"), json.at("out").at("tolerance"));
  EXPECT_EQ(json.at("lse").at("compared"), 20 * 8);
  EXPECT_FALSE(json.at("lse").contains("dim"));
  const auto unchecked = nlohmann::json::parse(
      run_program({"run", "--lengths", "3", "--json", "--check", "none"}).out);
  EXPECT_FALSE(unchecked.contains("right"));
  expect_refused({"run", "--lengths", "3", "--json", "--one-line"}, "--json: ");
}

// Prefix and fresh keys of a file, computed as one row of keys.
TEST(CliRun, AFileOfTwoSources) {
  const Folder folder;
  const std::string path = folder.file("prefixed.safetensors");
  std::vector<std::vector<float>> values;
  const auto tensor = [&](const char* name, std::int64_t tokens, std::int64_t heads) {
    std::vector<float>& to = values.emplace_back(static_cast<std::size_t>(tokens * heads * 16));
    const auto seed = static_cast<float>(values.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::sin(seed * static_cast<float>(i));
    return safetensors::Tensor{
        name, safetensors::ElementType::f32, {tokens, heads, 16}, std::as_bytes(std::span(to))};
  };
  const std::vector<std::int32_t> fresh = {0, 4, 9};
  const std::vector<std::int32_t> prefix = {0, 0, 7};
  const auto offsets = [](const char* name, const std::vector<std::int32_t>& of) {
    return safetensors::Tensor{
        name, safetensors::ElementType::i32, {3}, std::as_bytes(std::span(of))};
  };
  const std::vector<safetensors::Tensor> tensors = {tensor("q", 9, 4),
                                                    tensor("k", 9, 2),
                                                    tensor("v", 9, 2),
                                                    tensor("prefix_k", 7, 2),
                                                    tensor("prefix_v", 7, 2),
                                                    offsets("cu_seqlens", fresh),
                                                    offsets("prefix_cu_seqlens", prefix)};
  write_file(path, safetensors::serialize(tensors, {{"causal", "1"}}));
  const Finished done = run_program({"run", "--input", path, "--check", "all"});
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  EXPECT_TRUE(holds(done.out,
                    "prefixed causal, 2 segments, 9 tokens on 16 keys in two sources, 4 heads on "
                    "2 of 16, fp32"));
  EXPECT_TRUE(holds(done.out, "\nright\n"));
}

TEST(CliPlan, SaysWhatAndWhy) {
  const Finished done = run_program({"plan", "--lengths", "3,17,512", "--units"});
  EXPECT_EQ(done.status, 0) << done.err;
  for (const char* part : {"case ", "attention ", "layout     3 segments, 532 tokens", "device ",
                           "backend ", "tiles ", "work ", "waste ", "workspace ", "units ("}) {
    EXPECT_TRUE(holds(done.out, part));
  }
}

TEST(CliPlan, AsJsonHasTheFieldsOfThePlan) {
  const Finished done = run_program({"plan", "--workload", "W7", "--json", "--units"});
  EXPECT_EQ(done.status, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json.at("name"), "W7");
  EXPECT_EQ(json.at("problem").at("kind"), "block_causal");
  EXPECT_EQ(json.at("problem").at("block_size"), 50);
  EXPECT_FALSE(json.at("units").empty());
}

TEST(CliPlan, ForADeviceThatIsNotHere) {
  // Whether this build has a backend for it or not, the decision is shown.
  const Finished done = run_program({"plan", "--workload", "qwen25vl-window", "--device", "h200"});
  EXPECT_TRUE(done.status == 0 || done.status == 1) << done.err;
  EXPECT_TRUE(holds(done.out, "h200"));
  EXPECT_TRUE(holds(done.out, "reference"));
  expect_refused({"plan", "--lengths", "3", "--device", "h200", "--threads", "2"},
                 "--threads: expected a CPU");
}

TEST(CliBench, WritesAReport) {
  const Folder folder;
  const std::string report = folder.file("report.json");
  const Finished done = run_program(
      {"bench", "--workload", "W8", "--threads", "1", "--seconds", "0", "--json", report});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(holds(done.out, "W8 "));
  EXPECT_EQ(done.err, "") << "no progress bar where standard error is no terminal";
  std::ifstream file(report);
  const auto json = nlohmann::json::parse(file);
  ASSERT_EQ(json.at("rows").size(), 1U);
  EXPECT_EQ(json.at("rows").at(0).at("workload"), "W8");
  EXPECT_EQ(json.at("rows").at(0).at("threads"), 1);
  EXPECT_TRUE(json.at("machine").contains("fma_peak_gflops"));
}

TEST(CliBench, RefusesByName) {
  expect_refused({"bench"}, "--suite or --workload: expected one of them, got neither");
  expect_refused({"bench", "--suite", "gpu"}, "--suite: expected cpu or models");
  expect_refused({"bench", "--workload", "W1,"}, "--workload: expected a list");
  expect_refused({"bench", "--workload", "W1", "--threads", "0"}, "--threads: expected an integer");
  expect_refused({"bench", "--workload", "W1", "--seconds", "-1"}, "--seconds: expected");
  EXPECT_TRUE(holds(run_program({"bench", "--list"}).out, "W9: prefixed"));
}

TEST(CliDraw, WritesAPicture) {
  const Folder folder;
  const std::string picture = folder.file("plan.svg");
  const Finished done = run_program({"draw", "--lengths", "5,9", "--causal", "--output", picture});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "");
  std::ifstream file(picture);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(holds(text, "<svg "));
  EXPECT_EQ(text, run_program({"draw", "--lengths", "5,9", "--causal"}).out);
  expect_refused({"draw", "--lengths", "5", "--segments", "0"}, "--segments: expected");
  expect_refused({"draw", "--lengths", "5", "--device", "tpu"}, "--device: ");
}

TEST(CliInfo, NamesEveryBackend) {
  const Finished done = run_program({"info"});
  EXPECT_TRUE(holds(done.out, "gpu       "));
  EXPECT_EQ(done.status, 0) << done.err;
  for (const char* part :
       {"simd ", "threads", "caches ", "reference ", "cpu ", "sm90 ", "cudnn "}) {
    EXPECT_TRUE(holds(done.out, part));
  }
  const auto json = nlohmann::json::parse(run_program({"info", "--json"}).out);
  EXPECT_EQ(json.at("backends").size(), 6U);
  EXPECT_GE(json.at("threads"), 1);
  for (const auto& backend : json.at("backends")) {
    EXPECT_TRUE(!backend.at("serves").empty() || !backend.at("lacks").empty()) << backend;
  }
}

}  // namespace
}  // namespace ragged::tools
