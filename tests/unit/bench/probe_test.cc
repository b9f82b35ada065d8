// The probes give rates that can be trusted as limits: positive where the machine has the target,
// zero where it has not, the wider target never slower by a wide margin.

#include <gtest/gtest.h>

#include <thread>

#include "bench/fma_probe.hpp"
#include "bench/machine.hpp"
#include "bench/read_probe.hpp"

namespace ragged::bench {
namespace {

constexpr double kShort = 0.0005;  // seconds

TEST(FmaProbe, MeasuresEverySupportedTargetAndNoOther) {
  int supported = 0;
  for (const char* simd : {"scalar", "sse4", "avx2", "avx512", "amx", "neon"}) {
    const double peak = fma_peak_gflops(simd, 1, kShort);
    if (probe_supported(simd)) {
      ++supported;
      EXPECT_GT(peak, 0.0) << simd;
    } else {
      EXPECT_EQ(peak, 0.0) << simd;
      EXPECT_EQ(kernel_loop_gflops(simd, 1, kShort), 0.0) << simd;
    }
  }
  EXPECT_GE(supported, 1);
}

TEST(FmaProbe, RefusesWhatItDoesNotKnow) {
  EXPECT_FALSE(probe_supported("avx3"));
  EXPECT_EQ(fma_peak_gflops("avx3", 1, kShort), 0.0);
  EXPECT_EQ(fma_peak_gflops(best_fp32_simd(), 0, kShort), 0.0);
}

// A single slice of a probe does about 3e6 flops; a machine that claimed more than 1e14 a second
// on one core would mean that the loop had been optimized away.
TEST(FmaProbe, RatesArePossible) {
  ASSERT_TRUE(probe_supported(best_fp32_simd()));
  for (const char* simd : {"scalar", "sse4", "avx2", "avx512", "amx", "neon"}) {
    EXPECT_LT(fma_peak_gflops(simd, 1, kShort), 1e5) << simd;
    EXPECT_LT(kernel_loop_gflops(simd, 1, kShort), 1e5) << simd;
  }
}

TEST(FmaProbe, CountsEveryThread) {
  // More threads than cores still end and still report: each thread's rate is over its own time.
  const int threads = 2 * static_cast<int>(std::thread::hardware_concurrency()) + 1;
  EXPECT_GT(fma_peak_gflops(best_fp32_simd(), threads, kShort), 0.0);
}

TEST(ReadProbe, ReadsAnySizeWithAnyThreads) {
  for (const std::int64_t bytes : {64, 4096 + 64, 1 << 20}) {
    for (const int threads : {1, 3}) {
      EXPECT_GT(ReadProbe(bytes, threads).measure_gbps(), 0.0) << bytes << " bytes, " << threads;
    }
  }
}

TEST(Machine, SaysWhatItIs) {
  const Machine machine = Machine::read();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 0);
  EXPECT_FALSE(machine.kernel.empty());
  EXPECT_FALSE(machine.compiler.empty());
  EXPECT_EQ(machine.simd, best_fp32_simd());
#if defined(__x86_64__)
  EXPECT_FALSE(machine.flags.empty());
  EXPECT_FALSE(machine.model.empty());
#endif
}

TEST(Machine, TextIsOneJsonObject) {
  const std::string text = Machine::read().to_json();
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) in_string = !in_string;
    if (in_string) continue;
    depth += text[i] == '{' || text[i] == '[' ? 1 : 0;
    depth -= text[i] == '}' || text[i] == ']' ? 1 : 0;
    ASSERT_GE(depth, i + 1 == text.size() ? 0 : 1) << text.substr(0, i + 1);
  }
  EXPECT_EQ(depth, 0);
  EXPECT_FALSE(in_string);
  for (const char* field : {"\"model\": ", "\"flags\": ", "\"caches\": [",
                            "\"governor\": ", "\"simd\": ", "\"cores\": "}) {
    EXPECT_NE(text.find(field), std::string::npos) << field;
  }
}

}  // namespace
}  // namespace ragged::bench
