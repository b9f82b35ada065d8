#include "backends/cpu/cpu.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "backends/cpu/abreast.hpp"
#include "backends/cpu/matrix.hpp"
#include "backends/cpu/targets.hpp"

namespace ragged {
namespace {

using cpu::Variant;

// Outputs from here on are written past the caches: they would push out what is in use, and their
// reader comes only after all of them.
constexpr std::int64_t kStreamBytes = std::int64_t{16} << 20;

// Of the second-level cache, for a band of heads that is fetched while the one before it is in use.
// Bands of 384 to 1024 KiB of 2 MiB are alike.
constexpr std::int64_t kBandShare = 5;

std::int64_t unit_rows(const Problem& problem, const DeviceFacts& device) {
  const std::int64_t limit = cpu::unit_rows_limit(problem.head_dim, device.threads);
  return std::max<std::int64_t>(limit / problem.group(), 1);
}

// Float lanes of one vector, also for a machine that is only named.
int lanes_of(const DeviceFacts& device) {
  if (device.simd == "avx512" || device.simd == "amx") return 16;
  return device.simd == "avx2" ? 8 : 4;
}

Tile tile_of(const Problem& problem, const DeviceFacts& device, Variant variant) {
  const int group = problem.group();
  Tile tile;
  tile.q_rows = std::max(3 * lanes_of(device) / group, 1);
  tile.kv_rows = cpu::kMaxBlock;
  const std::int64_t rows = unit_rows(problem, device);
  tile.unit_rows =
      static_cast<std::int32_t>(std::max<std::int64_t>(rows / tile.q_rows, 1)) * tile.q_rows;
  tile.heads = group;
  tile.variant = static_cast<std::int32_t>(variant);
  // Rows end in whole vectors, keys anywhere.
  tile.row_step = std::max(lanes_of(device) / group, 1);
  tile.key_step = 1;
  return tile;
}

cpu::ScratchShape scratch_of(const Problem& problem, const DeviceFacts& device,
                             std::int64_t max_kv_length) {
  const Tile tile = tile_of(problem, device, Variant::packed);
  return cpu::scratch_shape(problem.head_dim, device.threads,
                            std::int64_t{tile.unit_rows} * tile.heads, max_kv_length);
}

// Whether items may run on matrix tiles: bf16 inputs, on a device that is said to have them.
bool uses_matrix(const Problem& problem, const DeviceFacts& device) {
  return problem.dtype == DType::bf16 && device.simd == "amx";
}

// Rows of a matrix item, heads of the group counted apart: enough to pay for packing the keys, and
// sums and queries of all workers within 24 MiB.
std::int64_t matrix_rows(const Problem& problem, const DeviceFacts& device) {
  const std::int64_t row_bytes = std::int64_t{8} * problem.head_dim;
  const std::int64_t most = (std::int64_t{24} << 20) / (row_bytes * std::max(device.threads, 1));
  const std::int64_t rows =
      std::clamp(most / cpu::matrix::kPanelRows * cpu::matrix::kPanelRows,
                 std::int64_t{cpu::matrix::kPanelRows}, cpu::matrix::kUnitRows);
  return std::max<std::int64_t>(rows, problem.group());
}

Tile matrix_tile(const Problem& problem, const DeviceFacts& device) {
  const int group = problem.group();
  Tile tile;
  tile.q_rows = std::max(cpu::matrix::kPanelRows / group, 1);
  tile.kv_rows = cpu::matrix::chunk_keys(problem.head_dim);
  const std::int64_t tokens = matrix_rows(problem, device) / group;
  tile.unit_rows =
      static_cast<std::int32_t>(std::max<std::int64_t>(tokens / tile.q_rows, 1)) * tile.q_rows;
  tile.heads = group;
  tile.variant = static_cast<std::int32_t>(Variant::matrix);
  tile.key_step = 32;  // two matrix tiles side by side
  return tile;
}

// Of all workers, whatever the machine: where it does not reach, fewer work.
constexpr std::size_t kMostWorkspaceBytes = std::size_t{64} << 20;

// Bytes of workspace for each worker.
std::size_t worker_bytes(const Problem& problem, const DeviceFacts& device,
                         std::int64_t max_kv_length) {
  const std::size_t vectors = sizeof(float) * scratch_of(problem, device, max_kv_length).total;
  if (!uses_matrix(problem, device)) return vectors;
  const Tile tile = matrix_tile(problem, device);
  return std::max(vectors, cpu::matrix::scratch_bytes(problem.head_dim,
                                                      std::int64_t{tile.unit_rows} * tile.heads));
}

// Whether whole cache lines can be written past the caches: every row of every head starts and ends
// on a line.
bool lines_are_whole(const TensorView& out) {
  constexpr std::int64_t kLine = 64;  // bytes
  return reinterpret_cast<std::uintptr_t>(out.data) % kLine == 0 && out.shape[2] * 4 % kLine == 0 &&
         out.strides[0] * 4 % kLine == 0 && out.strides[1] * 4 % kLine == 0;
}

class CpuBackend final : public Backend {
 public:
  [[nodiscard]] RaggedAttnBackend id() const noexcept override { return RaggedAttnBackend::CPU; }

  [[nodiscard]] std::string declines(const Problem& problem,
                                     const DeviceFacts& device) const override {
    if (device.device.kind != DeviceKind::cpu) {
      return "device: serves cpu; got " + to_string(device.device);
    }
    // The kernels hold it as a normal fp32 number, times log2(e).
    const double magnitude = std::abs(problem.sm_scale);
    if (problem.sm_scale != 0.0 && (magnitude < 0x1p-126 || magnitude > 0x1p127)) {
      std::ostringstream text;
      text << "sm_scale: serves 0 and magnitudes of 2^-126 to 2^127; got " << problem.sm_scale;
      return text.str();
    }
    return {};
  }

  [[nodiscard]] Tuning tune(const Problem& problem, const DeviceFacts& device,
                            const StepTotals& totals) const override {
    Tuning tuning;
    TileTable& table = tuning.tiles;
    if (problem.dtype == DType::fp32) {
      TileRule& few_rows = table.rules[table.num_rules++];
      few_rows.max_q_length = cpu::kInPlaceRows / problem.group();
      few_rows.tile = tile_of(problem, device, Variant::in_place);
    }
    TileRule& rest = table.rules[table.num_rules++];
    rest.tile = tile_of(problem, device, Variant::packed);
    if (uses_matrix(problem, device)) {
      rest.max_q_length = cpu::matrix::kFewestTokens - 1;
      table.rules[table.num_rules++].tile = matrix_tile(problem, device);
    }
    const std::size_t bytes = worker_bytes(problem, device, totals.max_kv_length);
    const std::size_t workers = std::clamp<std::size_t>(kMostWorkspaceBytes / bytes, 1,
                                                        static_cast<std::size_t>(device.threads));
    tuning.workspace_bytes = workers * bytes;
    return tuning;
  }

  [[nodiscard]] std::string kernel_of(const Tile& tile) const override {
    switch (static_cast<Variant>(tile.variant)) {
      case Variant::in_place:
        return "keys in place";
      case Variant::packed:
        return "keys packed";
      case Variant::matrix:
        return "matrix tiles";
    }
    return Backend::kernel_of(tile);
  }

  void run(const Plan& plan, const RunArguments& arguments) const override {
    cpu::Job job;
    job.plan = &plan;
    job.arguments = &arguments;
    // The ceilings' longest segment may be longer than this step's: the scratch then has room left.
    const std::int64_t longest = longest_keys(plan);
    job.scratch = scratch_of(plan.problem, plan.device, longest);
    job.worker_bytes = worker_bytes(plan.problem, plan.device, longest);
    // A plan for tiles that this machine lacks runs on vectors.
    if (uses_matrix(plan.problem, plan.device) && cpu::matrix::available()) {
      const Tile tile = matrix_tile(plan.problem, plan.device);
      job.matrix_rows = std::int64_t{tile.unit_rows} * tile.heads;
    }
    const std::int64_t items = plan.num_items();
    const bool fp32 = plan.problem.dtype == DType::fp32;
    job.stream = fp32 && out_bytes(plan) >= kStreamBytes && lines_are_whole(arguments.out);

    Executor& executor = arguments.executor != nullptr ? *arguments.executor : default_executor();
    const auto with_scratch = static_cast<std::int64_t>(plan.workspace_bytes / job.worker_bytes);
    const std::int64_t most =
        std::min<std::int64_t>({plan.device.threads, executor.concurrency(), with_scratch});
    const int workers = static_cast<int>(std::clamp<std::int64_t>(most, 1, items));
    if (cpu::keys_adjoin(plan, arguments)) {
      job.abreast = static_cast<int>(
          std::min<std::int64_t>(job.scratch.kept_rows / cpu::kAbreastRows, cpu::kMaxAbreast));
    }
    // Large enough that the next item is usually one's own, small enough to end together.
    job.claim = workers == 1 ? items : claim_of(items / (workers * 32), plan.items_per_unit);
    if (workers > 1 && job.abreast > 1 && all_walk_abreast(plan, longest)) {
      const std::int64_t heads = std::min<std::int64_t>(items / (workers * 4), cpu::kMaxAbreast);
      job.claim = std::max(job.claim, cpu::largest_divisor(plan.items_per_unit, heads));
    }
    job.band_bytes = plan.device.l2_bytes / kBandShare;
    job.band_heads = std::gcd(job.claim, plan.items_per_unit);
    struct Call {
      cpu::Job& job;
      const cpu::Target& target;
    } call{job, cpu::target_for(plan.device.simd)};
    if (workers == 1) {
      call.target.run(job, 0);
      return;
    }
    executor.run(
        workers,
        [](void* context, int worker) {
          const Call& self = *static_cast<Call*>(context);
          self.target.run(self.job, worker);
        },
        &call);
  }

 private:
  // At most 16 items or one unit, at most `share` and at least one: whole units, or equal parts of
  // a unit.
  static std::int64_t claim_of(std::int64_t share, std::int64_t items_per_unit) {
    const std::int64_t most = std::min(share, std::max<std::int64_t>(items_per_unit, 16));
    if (most >= items_per_unit) return most / items_per_unit * items_per_unit;
    return cpu::largest_divisor(items_per_unit, std::min<std::int64_t>(most, 16));
  }
  // Few rows of each head, over any number of keys: a claim is then of heads that walk abreast.
  static bool all_walk_abreast(const Plan& plan, std::int64_t longest_keys) {
    return plan.layouts.q.max_length() * plan.problem.group() <= cpu::kAbreastRows &&
           longest_keys > cpu::kMaxBlock;
  }
  static std::int64_t out_bytes(const Plan& plan) {
    return plan.layouts.q.total_tokens() * plan.problem.num_qo_heads * plan.problem.head_dim *
           size_bytes(plan.problem.dtype);
  }
  // As the planner counts it: a larger figure would ask for more scratch than there is.
  static std::int64_t longest_keys(const Plan& plan) {
    const StepLayouts& layouts = plan.layouts;
    if (!plan.problem.two_sources) return layouts.keys().max_length();
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < layouts.q.num_segments(); ++i) {
      longest = std::max(longest, layouts.kv_length(i));
    }
    return longest;
  }
};

}  // namespace

const Backend& cpu_backend() noexcept {
  static const CpuBackend backend;
  return backend;
}

}  // namespace ragged
