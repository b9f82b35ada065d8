// The peers as `ragged bench --peers` takes them.

#include "bench_peers.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "backends/reference/reference.hpp"
#include "unit/core/support.hpp"

#if defined(RAGGED_HAS_PEERS)
#include "bench/peers.hpp"
#endif

namespace ragged::tools {
namespace {

Plan plan_of(DType dtype) {
  Problem problem = test::problem_of(AttentionKind::self, 1, 1, 8);
  problem.dtype = dtype;
  return test::plan_with(reference_backend(), problem, test::self_layouts({3, 5}));
}

TEST(BenchPeers, AreThoseThatAreBuilt) {
  const Plan plan = plan_of(DType::fp32);
  const std::vector<PeerProvider> peers = peers_for(plan);
#if defined(RAGGED_HAS_PEERS)
  ASSERT_EQ(peers.size(), bench::built_peers().size());
  for (std::size_t i = 0; i < peers.size(); ++i) {
    EXPECT_EQ(peers[i].provider.name, bench::built_peers()[i]->name());
    EXPECT_EQ(peers[i].declined, "");
    EXPECT_NE(peers[i].provider.version, "");
    EXPECT_TRUE(peers[i].provider.run);
  }
#else
  EXPECT_TRUE(peers.empty());
#endif
}

TEST(BenchPeers, SayWhyTheyDecline) {
  const Plan plan = plan_of(DType::bf16);
  for (const PeerProvider& peer : peers_for(plan)) {
    EXPECT_NE(peer.declined.find("dtype"), std::string::npos) << peer.provider.name;
    EXPECT_FALSE(peer.provider.run);
  }
}

TEST(BenchPeers, PythonIsNotStartedForNothing) {
  EXPECT_EQ(run_python_peers("no/such/folder/report.json", {}, 0.0), "");
}

// Found from the working folder alone: a program that is installed elsewhere knows no other.
TEST(BenchPeers, ThoseOfPythonAreOfTheWorkingFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path empty = std::filesystem::path(testing::TempDir()) / "no_peers_here";
  std::filesystem::create_directories(empty);
  std::filesystem::current_path(empty);
  BenchRow row;
  row.workload = "W1";
  const std::string missing = run_python_peers("report.json", {&row, 1}, 0.0);
  std::filesystem::current_path(before);
  EXPECT_EQ(missing.rfind("bench/peers_cpu.py is not here", 0), 0U) << missing;
}

}  // namespace
}  // namespace ragged::tools
