#include <ragged/plan.hpp>

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include "backends/contract.hpp"
#include "device_facts.hpp"
#include "work_list.hpp"

namespace ragged {
namespace {

constexpr std::string_view kFirstThatServes = "the first in order of preference that serves it";
constexpr std::string_view kPinned = "pinned by name";
constexpr std::string_view kCouldServe = "could serve; ";

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

void require_at_most(std::string_view count_name, std::int64_t count, std::string_view ceiling_name,
                     std::int64_t ceiling) {
  if (count <= ceiling) return;
  throw Error(ErrorCode::out_of_range, std::string(count_name) + " = " + std::to_string(count) +
                                           " exceeds the ceiling " + std::string(ceiling_name) +
                                           " = " + std::to_string(ceiling));
}

// What a device's table holds of rows.
void check_device_range(const StepLayouts& layouts) {
  const std::pair<std::string_view, std::int64_t> rows[] = {{"q", layouts.q.extent()},
                                                            {"kv", layouts.keys().extent()},
                                                            {"prefix", layouts.prefix.extent()}};
  for (const auto& [name, extent] : rows) {
    if (extent > kMostDeviceRows) {
      throw Error(ErrorCode::out_of_range, std::string(name) + " has " + std::to_string(extent) +
                                               " rows; a step on a GPU has at most " +
                                               std::to_string(kMostDeviceRows));
    }
  }
}

bool keys_are_queries(AttentionKind kind) noexcept {
  return kind == AttentionKind::self || kind == AttentionKind::block_causal;
}

void check_layouts(const Problem& problem, const StepLayouts& layouts) {
  const std::string kind(to_string(problem.kind));
  const std::int64_t segments = layouts.q.num_segments();
  if (keys_are_queries(problem.kind) && !layouts.kv_is_q) {
    refuse(kind + " attention takes its keys from the query layout; got a kv layout of its own");
  }
  if (layouts.keys().num_segments() != segments) {
    refuse(kind + " attention pairs segments by position: q has " + std::to_string(segments) +
           " segments, kv has " + std::to_string(layouts.keys().num_segments()));
  }
  if (problem.two_sources && layouts.prefix.num_segments() != segments) {
    refuse(kind + " attention pairs segments by position: q has " + std::to_string(segments) +
           " segments, prefix has " + std::to_string(layouts.prefix.num_segments()));
  }
  if (!problem.two_sources && layouts.prefix.num_segments() != 0) {
    refuse("a prefix layout needs two_sources = true; got one of " +
           std::to_string(layouts.prefix.num_segments()) + " segments");
  }
}

void check_ceilings(const Problem& problem, const StepLayouts& layouts, const Ceilings& ceilings) {
  // No address space holds more; below it, sums of ceilings stay inside 64 bits.
  constexpr std::int64_t kLargest = std::int64_t{1} << 48;
  const std::pair<std::string_view, std::int64_t> declared[] = {
      {"max_num_segments", ceilings.max_num_segments},
      {"max_total_tokens", ceilings.max_total_tokens},
      {"max_total_kv_tokens", ceilings.max_total_kv_tokens}};
  for (const auto& [name, ceiling] : declared) {
    if (ceiling < 0 || ceiling > kLargest) {
      refuse(std::string(name) + " must be in 0.." + std::to_string(kLargest) + "; got " +
             std::to_string(ceiling));
    }
  }
  require_at_most("num_segments", layouts.q.num_segments(), "max_num_segments",
                  ceilings.max_num_segments);
  require_at_most("total_tokens", layouts.q.total_tokens(), "max_total_tokens",
                  ceilings.max_total_tokens);
  if (!keys_are_queries(problem.kind)) {
    require_at_most("total_kv_tokens", total_kv_tokens(layouts), "max_total_kv_tokens",
                    ceilings.max_total_kv_tokens);
  }
}

// Which backend serves, and what is said about the others.
struct Choice {
  const Backend* backend = nullptr;
  std::string name;
  std::string_view reason;
  std::vector<Declined> declined;  // every other backend, in order of preference
};

Choice choose(const Problem& problem, const DeviceFacts& device,
              std::span<const Backend* const> backends, RaggedAttnBackend pinned) {
  Choice choice;
  choice.reason = pinned == RaggedAttnBackend::AUTO ? kFirstThatServes : kPinned;
  std::string why_none;
  bool pinned_is_built = pinned == RaggedAttnBackend::AUTO;
  for (const Backend* backend : backends) {
    const std::string name(backend->name());
    const bool asked = pinned == RaggedAttnBackend::AUTO || backend->id() == pinned;
    pinned_is_built = pinned_is_built || asked;
    std::string reason = backend->declines(problem, device);
    if (reason.empty() && asked && choice.backend == nullptr) {
      choice.backend = backend;
      choice.name = name;
      continue;
    }
    if (asked && !reason.empty()) {
      why_none += (why_none.empty() ? "" : "; ") + name + ": " + reason;
    }
    if (reason.empty()) {
      reason = std::string(kCouldServe) +
               (asked ? "comes after " + choice.name + " in order of preference"
                      : std::string(to_string(pinned)) + " is pinned");
    }
    choice.declined.push_back({name, std::move(reason)});
  }
  if (choice.backend == nullptr) {
    if (!pinned_is_built) why_none = std::string(to_string(pinned)) + " is not built";
    if (backends.empty()) why_none = "this build has no backend";
    throw Error(ErrorCode::unsupported,
                "no backend serves " + std::string(to_string(problem.kind)) + " attention on " +
                    device.to_string() + ": " + why_none);
  }
  return choice;
}

// True if the choice in `plan` was made on the same values, so that it need not be made again:
// declines() is pure.
bool choice_holds(const Plan& plan, const Problem& problem, const DeviceFacts& device,
                  std::span<const Backend* const> backends, RaggedAttnBackend pinned) {
  if (plan.backend == nullptr || plan.problem != problem || plan.device != device) return false;
  const bool automatic = pinned == RaggedAttnBackend::AUTO;
  if (plan.choice_reason != (automatic ? kFirstThatServes : kPinned)) return false;
  if (!automatic && plan.backend->id() != pinned) return false;
  if (backends.size() != plan.declined.size() + 1) return false;
  std::size_t next = 0;
  bool before_chosen = true;
  for (const Backend* backend : backends) {
    if (backend == plan.backend) {
      before_chosen = false;
      continue;
    }
    if (next == plan.declined.size()) return false;
    const Declined& declined = plan.declined[next++];
    if (declined.backend != backend->name()) return false;
    // One that could serve and now stands before the chosen one would be chosen.
    if (automatic && before_chosen && declined.reason.starts_with(kCouldServe)) return false;
  }
  return next == plan.declined.size();
}

// The walk over units relies on these; a table that breaks them is the backend's bug.
void check_tiles(const TileTable& tiles, const Problem& problem, std::string_view backend) {
  const auto fail = [backend](const std::string& what) {
    throw Error(ErrorCode::internal, "tiles of backend " + std::string(backend) + ": " + what);
  };
  if (tiles.num_rules < 1 || tiles.num_rules > kMaxTileRules) {
    fail("num_rules must be in 1.." + std::to_string(kMaxTileRules) + "; got " +
         std::to_string(tiles.num_rules));
  }
  for (int i = 0; i < tiles.num_rules; ++i) {
    const Tile& tile = tiles.rules[i].tile;
    const std::string rule = "rule " + std::to_string(i);
    if (tile.q_rows < 1 || tile.kv_rows < 1 || tile.unit_rows < 1 ||
        tile.unit_rows % tile.q_rows != 0) {
      fail(rule + ": unit_rows must be a positive multiple of q_rows; got " +
           std::to_string(tile.unit_rows) + " and " + std::to_string(tile.q_rows));
    }
    if (tile.row_step < 0 || tile.row_step > tile.q_rows || tile.key_step < 0 ||
        tile.key_step > tile.kv_rows) {
      fail(rule + ": row_step must be in 0..q_rows and key_step in 0..kv_rows; got " +
           std::to_string(tile.row_step) + " and " + std::to_string(tile.key_step));
    }
    // One item count a unit: the id of an item is unit * items_per_unit + head group.
    if (tile.heads < 1 || problem.group() % tile.heads != 0 ||
        tile.heads != tiles.rules[0].tile.heads) {
      fail(rule + ": heads must divide the group of " + std::to_string(problem.group()) +
           " query heads and be the same in every rule; got " + std::to_string(tile.heads));
    }
  }
  const TileRule& last = tiles.rules[tiles.num_rules - 1];
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  if (last.max_q_length != kAny || last.max_kv_length != kAny) {
    fail("the last rule must hold every length");
  }
}

// Makes room in everything that the plan copies, so that what follows cannot fail.
void make_room(Plan& plan, const StepLayouts& layouts, std::int64_t units, std::int64_t segments) {
  const auto reserve = [segments](Layout& mine, const Layout& theirs) {
    mine.reserve(std::max(segments, theirs.num_segments()));
  };
  reserve(plan.layouts.q, layouts.q);
  reserve(plan.layouts.kv, layouts.kv);
  reserve(plan.layouts.prefix, layouts.prefix);
  plan.units.reserve(static_cast<std::size_t>(units));
}

void check_units(std::int64_t units) {
  if (units <= kMaxUnits) return;
  throw Error(ErrorCode::out_of_range, "the step has " + std::to_string(units) +
                                           " work units; a plan holds at most " +
                                           std::to_string(kMaxUnits));
}

// The most units that any layout within the ceilings has.
std::int64_t most_units(const TileTable& tiles, const Ceilings& ceilings) {
  std::int32_t rows = tiles.rules[0].tile.unit_rows;
  for (int i = 1; i < tiles.num_rules; ++i) {
    rows = std::min(rows, tiles.rules[i].tile.unit_rows);
  }
  return std::min(ceilings.max_total_tokens,
                  ceilings.max_total_tokens / rows + ceilings.max_num_segments);
}

void plan_step(Plan& plan, const Problem& problem, const StepLayouts& layouts,
               const DeviceFacts& device, std::span<const Backend* const> backends,
               RaggedAttnBackend pinned, const std::optional<Ceilings>& ceilings) {
  problem.validate();
  if (device.device.kind == DeviceKind::cpu) detail::check_cpu_facts(device);
  check_layouts(problem, layouts);
  if (ceilings) check_ceilings(problem, layouts, *ceilings);

  const bool keep = choice_holds(plan, problem, device, backends, pinned);
  Choice choice;
  DeviceFacts facts;
  std::string reason;
  if (!keep) {
    choice = choose(problem, device, backends, pinned);
    facts = device;
    reason = choice.reason;
  }
  const Backend* backend = keep ? plan.backend : choice.backend;
  if (backend->plans_on_device()) check_device_range(layouts);
  const Tuning tuning = backend->tune(problem, device, totals_of(problem, layouts, ceilings));
  check_tiles(tuning.tiles, problem, backend->name());
  if (!layouts.known() && !backend->plans_on_device()) {
    throw Error(ErrorCode::unsupported,
                "backend " + std::string(backend->name()) +
                    " plans from offsets on the host; these are on a device");
  }

  const std::int64_t most_segments = ceilings ? ceilings->max_num_segments : 0;
  std::vector<std::uint16_t>& notes = plan.scratch.segment_notes;
  // A device places the units of its steps itself: the host counts them alone.
  const bool on_device = backend->plans_on_device();
  WorkList work(mask_of(problem), tuning.tiles);
  RuleUnits rule_units{};
  std::int64_t num_units = 0;
  std::int64_t room = 0;
  if (on_device) {
    rule_units = count_units(tuning.tiles, layouts);
    num_units = std::accumulate(rule_units.begin(), rule_units.end(), std::int64_t{0});
  } else {
    const std::int64_t segments = std::max(most_segments, layouts.q.num_segments());
    if (std::ssize(notes) < segments) notes.resize(static_cast<std::size_t>(segments));
    num_units = work.count(layouts, notes.data());
    room = ceilings ? std::max(num_units, most_units(tuning.tiles, *ceilings)) : num_units;
  }
  check_units(std::max(num_units, room));
  make_room(plan, layouts, room, most_segments);

  // Nothing below allocates or throws: the plan changes as a whole or not at all.
  if (!keep) {
    plan.device = std::move(facts);
    plan.backend = choice.backend;
    plan.backend_name = std::move(choice.name);
    plan.choice_reason = std::move(reason);
    plan.declined = std::move(choice.declined);
  }
  plan.problem = problem;
  plan.ceilings = ceilings;
  plan.tiles = tuning.tiles;
  plan.items_per_unit = problem.num_qo_heads / tuning.tiles.rules[0].tile.heads;
  plan.workspace_bytes = tuning.workspace_bytes;
  plan.table_bytes = tuning.table_bytes;
  if (&plan.layouts != &layouts) {
    plan.layouts.q = layouts.q;
    plan.layouts.kv_is_q = layouts.kv_is_q;
    plan.layouts.kv = layouts.kv;
    plan.layouts.prefix = layouts.prefix;
  }
  plan.num_units = num_units;
  plan.rule_units = rule_units;
  plan.units.resize(on_device ? 0 : static_cast<std::size_t>(num_units));
  if (!on_device) work.place(plan.layouts, notes.data(), plan.units.data());
}

}  // namespace

StepTotals totals_of(const Problem& problem, const StepLayouts& layouts,
                     const std::optional<Ceilings>& ceilings) {
  if (ceilings) {
    const std::int64_t keys =
        keys_are_queries(problem.kind) ? ceilings->max_total_tokens : ceilings->max_total_kv_tokens;
    StepTotals totals{ceilings->max_num_segments, ceilings->max_total_tokens, keys,
                      ceilings->max_total_tokens, keys};
    totals.q_extent = std::max(ceilings->max_total_tokens, layouts.q.extent());
    totals.kv_extent = std::max(keys, layouts.keys().extent());
    return totals;
  }
  if (!layouts.known()) {
    const std::int64_t tokens = layouts.q.max_tokens();
    const std::int64_t keys = layouts.keys().max_tokens() + layouts.prefix.max_tokens();
    const bool bounded = std::max(tokens, keys) < kMostDeviceRows;
    return {layouts.q.num_segments(), tokens, keys, tokens, keys, bounded, tokens, keys};
  }
  StepTotals totals{layouts.q.num_segments(), layouts.q.total_tokens(), total_kv_tokens(layouts),
                    layouts.q.max_length(), layouts.keys().max_length()};
  totals.q_extent = layouts.q.extent();
  totals.kv_extent = layouts.keys().extent();
  if (problem.two_sources) {
    totals.max_kv_length = 0;
    for (std::int64_t i = 0; i < totals.num_segments; ++i) {
      totals.max_kv_length = std::max(totals.max_kv_length, layouts.kv_length(i));
    }
  }
  return totals;
}

std::vector<WorkUnit> Plan::work_units() const {
  if (std::ssize(units) == num_units) return units;
  std::vector<std::uint16_t> notes(static_cast<std::size_t>(layouts.q.num_segments()));
  WorkList work(mask_of(problem), tiles);
  std::vector<WorkUnit> placed(static_cast<std::size_t>(work.count(layouts, notes.data())));
  work.place(layouts, notes.data(), placed.data());
  return placed;
}

void make_plan(Plan& plan, const Problem& problem, const StepLayouts& layouts,
               const DeviceFacts& device, std::span<const Backend* const> backends,
               RaggedAttnBackend pinned, const std::optional<Ceilings>& ceilings) {
  try {
    plan_step(plan, problem, layouts, device, backends, pinned, ceilings);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory,
                "no memory for a plan of " + std::to_string(layouts.q.num_segments()) +
                    " segments and " + std::to_string(layouts.q.total_tokens()) + " tokens");
  }
}

}  // namespace ragged
