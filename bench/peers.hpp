#pragma once

// Other ways to compute the same step, for comparison: what one gets from two matrix products and a
// softmax on a good library, with no attention kernel at all. They take the same plan and the same
// tensors as the library's own run.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <ragged/run.hpp>

namespace ragged::bench {

// One step made ready on one peer: its work list and scratch.
class PeerRun {
 public:
  virtual ~PeerRun() = default;
  // Computes `out` as ragged::run does, on arguments.executor or the default one. Writes no LSE:
  // throws invalid_argument if one is asked for. Allocates nothing, except what the peer's own
  // library does at its first call of a shape.
  virtual void run(const RunArguments& arguments) = 0;
};

class Peer {
 public:
  virtual ~Peer() = default;
  // "openblas-q128", "libxsmm".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  // The library's version and the processor that it has taken this one for.
  [[nodiscard]] virtual std::string version() const = 0;
  // Why it cannot compute this, in one line; empty if it can.
  [[nodiscard]] virtual std::string declines(const Problem& problem) const = 0;
  // Makes one step ready for `threads` threads. The plan must outlive the result. Precondition:
  // declines(plan.problem) is empty.
  [[nodiscard]] virtual std::unique_ptr<PeerRun> prepare(const Plan& plan, int threads) const = 0;
};

// The peers of this build.
std::span<const Peer* const> built_peers();

}  // namespace ragged::bench
