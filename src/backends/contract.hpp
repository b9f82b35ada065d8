#pragma once

// What a backend is: a name, a reason to decline, a choice of tiles, and a run. One folder each;
// adding one touches its folder and one line of the registry.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <ragged/run.hpp>

#include "visible.hpp"

namespace ragged {

// Totals that a choice may look at: of the layout, or of the ceilings in capacity mode.
struct StepTotals {
  std::int64_t num_segments = 0;
  std::int64_t total_tokens = 0;
  std::int64_t total_kv_tokens = 0;
  std::int64_t max_q_length = 0;
  std::int64_t max_kv_length = 0;
  bool bounded = true;  // false: offsets on a device, without a ceiling; the totals are a guess
  // Rows of the tensors up to the end of the last segment: more than the totals where there are
  // gaps between segments; in capacity mode at least the ceilings.
  std::int64_t q_extent = 0;
  std::int64_t kv_extent = 0;
};
// The totals that tune() is given for a step: pure.
StepTotals totals_of(const Problem& problem, const StepLayouts& layouts,
                     const std::optional<Ceilings>& ceilings);

struct Tuning {
  TileTable tiles;
  std::size_t workspace_bytes = 0;  // exact, for these totals on this device
  std::size_t table_bytes = 0;      // backends that plan on a device: the table of such a step
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual RaggedAttnBackend id() const noexcept = 0;
  [[nodiscard]] std::string_view name() const noexcept { return to_string(id()); }

  // Why this backend cannot serve the problem on the device, in one line that names the argument,
  // what it serves and what came; empty if it can. Pure. Precondition: problem.validate() passed.
  [[nodiscard]] virtual std::string declines(const Problem& problem,
                                             const DeviceFacts& device) const = 0;
  // Tiles and scratch. Pure. The tile table depends on the problem and the device alone; the totals
  // bound the scratch. Precondition: declines() is empty.
  [[nodiscard]] virtual Tuning tune(const Problem& problem, const DeviceFacts& device,
                                    const StepTotals& totals) const = 0;
  // Which of its kernels walks such a tile, for explanations: "keys in place".
  [[nodiscard]] virtual std::string kernel_of(const Tile& tile) const {
    return "kernel " + std::to_string(tile.variant);
  }
  // True if a step's units are placed by the device, in stage(): plans then hold their number
  // alone.
  [[nodiscard]] virtual bool plans_on_device() const noexcept { return false; }
  // Makes ready on the plan's device what runs of such plans start, so that the first of them may
  // be captured. Called when a wrapper is constructed, for empty steps.
  virtual void prepare(const Plan& /*plan*/) const {}
  // Starts on the stream what makes the step's table. Allocates nothing, never synchronizes.
  // Precondition: the table holds plan.table_bytes.
  virtual void stage(const Plan& /*plan*/, const StageArguments& /*arguments*/) const {}
  // What of these tensors this backend cannot take, as declines(); empty if it takes them.
  [[nodiscard]] virtual std::string declines_tensors(const Plan& /*plan*/,
                                                     const RunArguments& /*arguments*/) const {
    return {};
  }
  // Computes the plan. Preconditions: the tensors fit the plan (run.hpp has checked them),
  // declines_tensors() is empty, there is at least one unit (in capacity mode on a device there may
  // be none: one launch serves every layout). Rows outside every segment are neither read into a
  // result nor written; segments without keys give 0 and LSE -inf. Allocates nothing.
  virtual void run(const Plan& plan, const RunArguments& arguments) const = 0;
};

// The mask of a problem, for visible.hpp.
inline Mask mask_of(const Problem& problem) noexcept {
  return {problem.causal, problem.kind == AttentionKind::block_causal ? problem.block_size : 0};
}

// Every backend of this build, in AUTO's order of preference. Defined by the registry.
std::span<const Backend* const> built_backends();

}  // namespace ragged
