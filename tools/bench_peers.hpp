#pragma once

// Other libraries beside ours: those that are built in, and those that Python has.

#include <span>
#include <string>
#include <vector>

#include "measure.hpp"

namespace ragged::tools {

// A built-in peer on one plan; `declined` says why where it cannot compute it, else it is empty.
struct PeerProvider {
  Provider provider;
  std::string declined;
};

// False without RAGGED_BUILD_PEERS.
bool has_built_in_peers() noexcept;

// The built-in peers, made ready for the plan, which must outlive them.
std::vector<PeerProvider> peers_for(const Plan& plan);

// Runs bench/peers_cpu.py of the working folder, which adds its rows to the report at `report`, on
// the workloads, thread counts and dtypes of `rows`. Its output and complaints go where ours go.
// Returns what kept it from running, in one line; empty if it ran.
std::string run_python_peers(const std::string& report, std::span<const BenchRow> rows,
                             double seconds);

}  // namespace ragged::tools
