#pragma once

// Steps whose tables are made in host memory, by the functions that the prologue runs on a device.

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include <ragged/run.hpp>

#include "backends/contract.hpp"
#include "device/step.hpp"
#include "support/random.hpp"
#include "support/refusal.hpp"

namespace ragged::test {

// Tiles as a test asks for them; units are placed by the device or by the host.
class TableBackend final : public Backend {
 public:
  explicit TableBackend(const TileTable& tiles, bool on_device = true)
      : tiles_(tiles), on_device_(on_device) {}
  [[nodiscard]] RaggedAttnBackend id() const noexcept override { return RaggedAttnBackend::SM80; }
  [[nodiscard]] std::string declines(const Problem&, const DeviceFacts&) const override {
    return {};
  }
  [[nodiscard]] Tuning tune(const Problem&, const DeviceFacts&, const StepTotals&) const override {
    Tuning tuning;
    tuning.tiles = tiles_;
    tuning.table_bytes = on_device_ ? 256 : 0;
    return tuning;
  }
  [[nodiscard]] bool plans_on_device() const noexcept override { return on_device_; }
  void run(const Plan&, const RunArguments&) const override {}

 private:
  TileTable tiles_;
  bool on_device_;
};

inline Plan plan_with(const TableBackend& backend, const Problem& problem,
                      const StepLayouts& layouts) {
  Plan plan;
  const Backend* list[] = {&backend};
  make_plan(plan, problem, layouts, DeviceFacts::host(1), list);
  return plan;
}

// A table in host memory, and everything that its step is made from.
class HostTable {
 public:
  explicit HostTable(const device::TableShape& shape) : shape_(shape) {
    const std::size_t bytes = device::table_layout(shape).bytes;
    // Exactly as large as it says, so that a sanitizer sees what lies beyond.
    memory_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{256})));
    std::fill_n(memory_.get(), bytes, std::byte{0});
  }

  // Makes the table of the plan; `arguments` brings offsets that the host has not read.
  void make(const Plan& plan, StageArguments arguments = {}, std::int64_t partial_slots = 0) {
    device::StepShape shape;
    shape.table = shape_;
    shape.partial_slots = partial_slots;
    arguments.table = {memory_.get(), device::table_layout(shape_).bytes};
    arguments.report = &report;
    words_.assign(static_cast<std::size_t>(device::count_words(plan.layouts)), -1);
    args = device::make_step(plan, arguments, shape, words_, words_.data());
    device::make_table(args);
  }

  [[nodiscard]] const device::TableHeader& header() const { return *args.table; }
  [[nodiscard]] std::vector<device::Unit> units(std::int32_t rule) const {
    const device::Unit* const first = args.units + header().first_unit[rule];
    return {first, first + header().num_units[rule]};
  }
  [[nodiscard]] std::int64_t num_entries() const {
    std::int64_t all = 0;
    for (const std::int32_t units : header().num_units) all += units;
    return all;
  }

  device::StepArgs args;
  device::FaultReport report;

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept {
      ::operator delete[](data, std::align_val_t{256});
    }
  };
  device::TableShape shape_;
  std::unique_ptr<std::byte[], Free> memory_;
  std::vector<std::int32_t> words_;
};

inline Layout layout_of(const std::vector<std::int64_t>& lengths) {
  Layout layout;
  layout.assign_offsets(offsets_from_lengths(lengths), "cu_seqlens");
  return layout;
}

// Lengths as real steps have them: repeats, empties, and a few long ones.
inline std::vector<std::int64_t> random_lengths(Random& random, std::int64_t count) {
  std::vector<std::int64_t> lengths;
  while (std::ssize(lengths) < count) {
    const std::int64_t kind = random.integer(0, 4);
    if (kind == 0 && !lengths.empty()) {
      lengths.push_back(lengths.back());
    } else {
      lengths.push_back(kind == 1 ? 0 : random.integer(0, kind == 2 ? 700 : 20));
    }
  }
  return lengths;
}

struct RandomStep {
  Problem problem;
  StepLayouts layouts;
  TileTable tiles;
};

inline Layout random_layout(Random& random, std::int64_t count, bool gaps) {
  const std::vector<std::int64_t> lengths = random_lengths(random, count);
  if (!gaps) return layout_of(lengths);
  std::vector<std::int64_t> starts;
  std::int64_t at = random.integer(0, 5);
  for (const std::int64_t length : lengths) {
    starts.push_back(at);
    at += length + random.integer(0, 3);
  }
  Layout layout;
  layout.assign_spans({starts, lengths}, "spans");
  return layout;
}

inline RandomStep random_step(Random& random, bool may_have_gaps) {
  RandomStep step;
  const auto kind = static_cast<AttentionKind>(random.integer(0, 3));
  const bool pairs = kind == AttentionKind::cross || kind == AttentionKind::prefixed;
  step.problem.kind = kind;
  step.problem.num_kv_heads = static_cast<int>(random.integer(1, 3));
  const auto group = static_cast<std::int32_t>(random.integer(1, 4));
  step.problem.num_qo_heads = step.problem.num_kv_heads * group;
  step.problem.head_dim = 64;
  step.problem.sm_scale = 0.125;
  step.problem.causal =
      (kind == AttentionKind::self || kind == AttentionKind::prefixed) && random.chance(50);
  if (kind == AttentionKind::block_causal) step.problem.block_size = random.integer(1, 90);
  step.problem.two_sources = kind == AttentionKind::prefixed && random.chance(50);

  const std::int64_t count = random.integer(0, 40);
  const auto layout = [&] {
    return random_layout(random, count, may_have_gaps && random.chance(30));
  };
  step.layouts.q = layout();
  step.layouts.kv_is_q = !pairs || (step.problem.two_sources && random.chance(50));
  if (!step.layouts.kv_is_q) step.layouts.kv = layout();
  if (step.problem.two_sources) step.layouts.prefix = layout();

  step.tiles.num_rules = static_cast<std::int32_t>(random.integer(1, kMaxTileRules));
  const std::int32_t heads = random.chance(50) ? 1 : group;
  for (std::int32_t i = 0; i < step.tiles.num_rules; ++i) {
    TileRule& rule = step.tiles.rules[i];
    rule.tile.q_rows = static_cast<std::int32_t>(random.integer(1, 40));
    rule.tile.kv_rows = 16;
    rule.tile.unit_rows = rule.tile.q_rows * static_cast<std::int32_t>(random.integer(1, 4));
    rule.tile.heads = heads;
    if (random.chance(50))
      rule.tile.split_keys = static_cast<std::int32_t>(random.integer(16, 300));
    if (i + 1 == step.tiles.num_rules) break;
    if (random.chance(50)) rule.max_q_length = random.integer(0, 400);
    if (random.chance(50)) rule.max_kv_length = random.integer(0, 400);
  }
  return step;
}

}  // namespace ragged::test
