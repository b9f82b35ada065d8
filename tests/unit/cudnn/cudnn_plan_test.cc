// What the cudnn backend declines and plans, on a GPU that is only named.

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cudnn/cudnn.hpp"
#include "backends/cudnn/library.hpp"
#include "backends/cudnn/shape.hpp"
#include "unit/core/support.hpp"

namespace ragged {
namespace {

Problem usual() { return test::problem_of(AttentionKind::self, 8, 2, 128); }

std::string reason(const Problem& problem, const char* device = "h200") {
  return cudnn_backend().declines(problem, DeviceFacts::parse(device));
}

TEST(CudnnDeclines, ServesWhatCudnnHas) {
  for (const int head_dim : {8, 72, 128, 136, 256}) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      for (const AttentionKind kind :
           {AttentionKind::self, AttentionKind::cross, AttentionKind::prefixed}) {
        Problem problem = usual();
        problem.kind = kind;
        problem.dtype = dtype;
        problem.head_dim = head_dim;
        EXPECT_EQ(reason(problem), "");
        if (kind == AttentionKind::cross) continue;
        problem.causal = true;
        EXPECT_EQ(reason(problem), "");
      }
    }
  }
}

TEST(CudnnDeclines, NamesWhatItLacks) {
  Problem problem = usual();
  problem.dtype = DType::fp32;
  EXPECT_EQ(reason(problem), "dtype must be bf16 or fp16; got fp32");
  problem = usual();
  problem.kind = AttentionKind::block_causal;
  problem.block_size = 16;
  EXPECT_NE(reason(problem).find("got block_causal"), std::string::npos);
  problem = usual();
  problem.kind = AttentionKind::prefixed;
  problem.two_sources = true;
  EXPECT_NE(reason(problem).find("two_sources"), std::string::npos);
  EXPECT_NE(reason(usual(), "a100").find("compute capability 9.0; got 8.0"), std::string::npos);
  EXPECT_NE(reason(usual(), "cpu").find("device"), std::string::npos);
}

TEST(CudnnDeclines, ALibraryThatIsNotThereIsNamed) {
  const cudnn::Library missing = cudnn::load_library("libcudnn_of_nobody.so.9");
  EXPECT_EQ(missing.handle, nullptr);
  EXPECT_NE(missing.absence.find("libcudnn_of_nobody.so.9 is not found"), std::string::npos)
      << missing.absence;
  const cudnn::Library other = cudnn::load_library("libm.so.6");
  EXPECT_EQ(other.absence, "libm.so.6 is not cuDNN: it has no cudnnGetVersion");
}

TEST(CudnnDeclines, AnOlderLibraryIsNamedWithItsVersion) {
  EXPECT_EQ(cudnn::declines_version(91400), "");
  EXPECT_EQ(cudnn::declines_version(91900), "");
  const std::string old = cudnn::declines_version(91002);
  EXPECT_NE(old.find("9.14.0 or newer"), std::string::npos) << old;
  EXPECT_NE(old.find("is 9.10.2"), std::string::npos) << old;
}

TEST(CudnnDeclines, OffsetsOnADeviceNeedACeiling) {
  StepTotals totals;
  totals.bounded = false;
  EXPECT_NE(cudnn::declines_totals(totals).find("max_total_tokens"), std::string::npos);
  totals.bounded = true;
  EXPECT_EQ(cudnn::declines_totals(totals), "");
  totals.max_kv_length = (std::int64_t{1} << 30) + 1;
  EXPECT_NE(cudnn::declines_totals(totals).find("1073741825"), std::string::npos);
  EXPECT_THROW(static_cast<void>(cudnn_backend().tune(usual(), DeviceFacts::parse("h200"), totals)),
               Error);
}

TEST(CudnnDeclines, TensorsOffSixteenBytes) {
  alignas(16) static std::uint16_t data[8];
  device::AttentionArgs args;
  args.num_qo_heads = 8;
  args.num_kv_heads = 2;
  args.q = args.out = {data, 1024, 128, 5};
  args.k = args.v = {data, 256, 128, 5};
  EXPECT_EQ(cudnn::declines_tensors(args), "");
  device::AttentionArgs off = args;
  off.v.data = data + 1;
  EXPECT_NE(cudnn::declines_tensors(off).find("v's base lies at 2 mod 16"), std::string::npos);
  off = args;
  off.k.token_stride = 260;
  EXPECT_NE(cudnn::declines_tensors(off).find("k's token stride is 260"), std::string::npos);
  off = args;
  off.out.head_stride = 0;
  EXPECT_NE(cudnn::declines_tensors(off).find("out's head stride is 0"), std::string::npos);
  off.num_qo_heads = 1;  // nobody steps from head to head
  EXPECT_EQ(cudnn::declines_tensors(off), "");
}

TEST(CudnnPlan, OneUnitForEachSegmentWithRows) {
  StepLayouts layouts;
  layouts.q.assign_offsets({0, 3, 3, 5000, 5001}, "q");
  layouts.kv_is_q = true;
  const Backend* const backends[] = {&cudnn_backend()};
  Plan plan;
  make_plan(plan, usual(), layouts, DeviceFacts::parse("h200"), backends, RaggedAttnBackend::CUDNN);
  EXPECT_EQ(plan.num_units, 3);
  EXPECT_EQ(plan.items_per_unit, 8);
  EXPECT_GT(plan.workspace_bytes, 0U);
  EXPECT_NE(plan.explain().find("cudnn"), std::string::npos);
}

TEST(CudnnPlan, WorkspaceStaysBelow64MiB) {
  StepTotals totals;
  totals.num_segments = 131072;
  const cudnn::Memory memory = cudnn::memory_of(totals, 132);
  EXPECT_LE(memory.bytes, std::size_t{64} << 20);
  EXPECT_GE(memory.graph_bytes, std::size_t{256} * 131072 + 768);  // cuDNN 9.14
  totals.num_segments = 1;
  EXPECT_GE(cudnn::memory_of(totals, 132).graph_bytes, 17152U);  // cuDNN 9.19
}

TEST(CudnnPlan, ArraysLieApart) {
  for (const std::int64_t segments : {0, 1, 7, 31, 32, 33, 1000}) {
    StepTotals totals;
    totals.num_segments = segments;
    const cudnn::Memory memory = cudnn::memory_of(totals, 132);
    const auto count = static_cast<std::size_t>(memory.segments);
    EXPECT_GE(memory.segments, segments);
    std::size_t at = 0;
    for (const std::size_t offsets : memory.offsets_at) {
      EXPECT_GE(offsets, at);
      EXPECT_EQ(offsets % 256, 0U);
      at = offsets + 8 * (count + 1);
    }
    EXPECT_GE(memory.q_lengths_at, at);
    EXPECT_GE(memory.kv_lengths_at, memory.q_lengths_at + 4 * count);
    EXPECT_GE(memory.graph_at, memory.kv_lengths_at + 4 * count);
    EXPECT_EQ(memory.graph_at % 256, 0U);
    EXPECT_EQ(memory.bytes, memory.graph_at + memory.graph_bytes);
  }
}

}  // namespace
}  // namespace ragged
