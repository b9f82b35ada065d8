#include "device_facts.hpp"

#include "support.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace ragged {
namespace {

TEST(DeviceFacts, HostIsBelievable) {
  const DeviceFacts host = DeviceFacts::host();
  EXPECT_EQ(host.name, "cpu");
  EXPECT_TRUE(host.present);
  EXPECT_GE(host.threads, 1);
  EXPECT_GE(host.l1d_bytes, 8 * 1024);
  EXPECT_GE(host.l2_bytes, 128 * 1024);
  EXPECT_EQ(host.device, Device());
  EXPECT_EQ(DeviceFacts::host(3).threads, 3);
  EXPECT_EQ(test::refusal(ErrorCode::invalid_argument, [] { DeviceFacts::host(-1); }),
            "threads must be at least 0; got -1");
}

#if defined(__linux__)
TEST(DeviceFacts, HostHonoursTheSchedulersMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  std::size_t first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const int threads = DeviceFacts::host().threads;
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(threads, 1);
}
#endif

TEST(DeviceFacts, TextAndBack) {
  for (const char* text : {"cpu:scalar:1", "cpu:avx2:8", "cpu:neon:4", "h200", "h100", "a100"}) {
    EXPECT_EQ(DeviceFacts::parse(text).to_string(), text);
  }
  const DeviceFacts host = DeviceFacts::host();
  EXPECT_EQ(DeviceFacts::parse("cpu"), host);
  EXPECT_EQ(DeviceFacts::parse(host.to_string()), host);
  EXPECT_EQ(DeviceFacts::parse("cpu:avx2").threads, host.threads);
}

TEST(DeviceFacts, NarrowerTargetsOfThisMachineArePresent) {
  const DeviceFacts host = DeviceFacts::host();
  EXPECT_TRUE(DeviceFacts::parse("cpu:scalar").present);
  EXPECT_TRUE(DeviceFacts::parse("cpu:" + host.simd).present);
#if defined(__x86_64__)
  EXPECT_FALSE(DeviceFacts::parse("cpu:neon").present);
  if (host.simd == "avx2") {
    EXPECT_FALSE(DeviceFacts::parse("cpu:avx512").present);
  }
#endif
}

TEST(DeviceFacts, NamedGpusAreNotThisMachine) {
  const DeviceFacts h200 = DeviceFacts::parse("h200");
  EXPECT_FALSE(h200.present);
  EXPECT_EQ(h200.sm_arch, 90);
  EXPECT_EQ(h200.sm_count, 132);
  EXPECT_EQ(h200.smem_bytes, 232448);
  EXPECT_EQ(h200.device.kind, DeviceKind::cuda);
  EXPECT_EQ(DeviceFacts::parse("a100").sm_count, 108);
}

TEST(DeviceFacts, AGpuThatIsNotHereSaysWhy) {
  // The core alone knows no GPU.
  const DeviceFacts none = DeviceFacts::of({DeviceKind::cuda, 1});
  EXPECT_FALSE(none.present);
  EXPECT_EQ(none.absence, "this build has no CUDA");
  EXPECT_EQ(none.to_string(), "cuda:1");
  EXPECT_EQ(DeviceFacts::parse("cuda:1"), none);
  EXPECT_EQ(DeviceFacts::parse("cuda").device, (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(DeviceFacts::of({}), DeviceFacts::host());

  set_gpu_facts([](int index) {
    DeviceFacts facts;
    facts.device = {DeviceKind::cuda, index};
    facts.name = "cuda:" + std::to_string(index);
    facts.sm_count = 7;
    return facts;
  });
  const DeviceFacts told = DeviceFacts::parse("cuda:3");
  set_gpu_facts(nullptr);
  EXPECT_TRUE(told.present);
  EXPECT_EQ(told.sm_count, 7);
  EXPECT_EQ(told.to_string(), "cuda:3");
}

TEST(DeviceFacts, RefusesByName) {
  for (const char* bad : {"", "gpu", "cpu:", "cpu:avx9", "cpu:avx2:", "cpu:avx2:0", "cpu:avx2:x",
                          "cpu:avx2:4097", "cpu:avx2:4:4", "cpux", "h200:1", "cuda:", "cuda:x"}) {
    const std::string text =
        test::refusal(ErrorCode::invalid_argument, [&] { DeviceFacts::parse(bad); });
    test::expect_text(text, "h200, h100 or a100; got '" + std::string(bad) + "'");
  }
}

}  // namespace
}  // namespace ragged
