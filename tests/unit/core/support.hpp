#pragma once

// What the core's tests share: tensors that own their memory, seeded layouts.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <ragged/run.hpp>

#include "backends/contract.hpp"
#include "numbers.hpp"
#include "support/refusal.hpp"

namespace ragged::test {

inline void expect_text(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

// A packed [tokens, heads, head_dim] tensor.
class Tensor {
 public:
  Tensor(DType dtype, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim)
      : dtype_(dtype),
        shape_{tokens, heads, head_dim},
        bytes_(static_cast<std::size_t>(tokens * heads * head_dim * size_bytes(dtype))) {}

  [[nodiscard]] TensorView view() const {
    return TensorView::packed(bytes_.data(), dtype_, shape_[0], shape_[1], shape_[2]);
  }
  [[nodiscard]] float at(std::int64_t token, std::int64_t head, std::int64_t d) const {
    return load_element(address(token, head, d), dtype_);
  }
  void set(std::int64_t token, std::int64_t head, std::int64_t d, float value) {
    store_element(address(token, head, d), dtype_, value);
  }
  void fill(float value) {
    for_each([&] { return value; });
  }
  void fill_normal(std::mt19937_64& random) {
    std::normal_distribution<float> normal;
    for_each([&] { return normal(random); });
  }
  [[nodiscard]] const std::array<std::int64_t, 3>& shape() const { return shape_; }

 private:
  [[nodiscard]] void* address(std::int64_t token, std::int64_t head, std::int64_t d) const {
    return static_cast<char*>(view().row(token, head)) + d * size_bytes(dtype_);
  }
  template <typename Value>
  void for_each(Value&& value) {
    for (std::size_t i = 0; i < bytes_.size(); i += static_cast<std::size_t>(size_bytes(dtype_))) {
      store_element(bytes_.data() + i, dtype_, value());
    }
  }

  DType dtype_;
  std::array<std::int64_t, 3> shape_;
  std::vector<char> bytes_;
};

inline Layout layout_of(std::span<const std::int64_t> lengths) {
  Layout layout;
  layout.assign_offsets(offsets_from_lengths(lengths), "cu_seqlens");
  return layout;
}
inline Layout layout_of(std::initializer_list<std::int64_t> lengths) {
  return layout_of(std::span(lengths.begin(), lengths.size()));
}

inline StepLayouts self_layouts(std::initializer_list<std::int64_t> lengths) {
  StepLayouts layouts;
  layouts.q = layout_of(lengths);
  layouts.kv_is_q = true;
  return layouts;
}
inline StepLayouts pair_layouts(std::initializer_list<std::int64_t> q,
                                std::initializer_list<std::int64_t> kv) {
  StepLayouts layouts;
  layouts.q = layout_of(q);
  layouts.kv = layout_of(kv);
  return layouts;
}

inline Problem problem_of(AttentionKind kind, int num_qo_heads = 4, int num_kv_heads = 2,
                          int head_dim = 64) {
  Problem problem;
  problem.kind = kind;
  problem.num_qo_heads = num_qo_heads;
  problem.num_kv_heads = num_kv_heads;
  problem.head_dim = head_dim;
  problem.sm_scale = 0.125;
  return problem;
}

// A backend with the tiles and the refusal that a test asks for.
class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(RaggedAttnBackend id = RaggedAttnBackend::CPU, std::string refusal = {})
      : refusal_(std::move(refusal)), id_(id) {
    tuning.tiles.num_rules = 1;
    tuning.tiles.rules[0].tile = {.q_rows = 8, .kv_rows = 16, .unit_rows = 32};
  }
  [[nodiscard]] RaggedAttnBackend id() const noexcept override { return id_; }
  [[nodiscard]] std::string declines(const Problem&, const DeviceFacts&) const override {
    ++declines_calls;
    return refusal_;
  }
  [[nodiscard]] Tuning tune(const Problem&, const DeviceFacts&,
                            const StepTotals& totals) const override {
    seen = totals;
    return tuning;
  }
  [[nodiscard]] std::string declines_tensors(const Plan&, const RunArguments&) const override {
    return tensor_refusal;
  }
  [[nodiscard]] bool plans_on_device() const noexcept override { return on_device; }
  void stage(const Plan&, const StageArguments&) const override { ++stages; }
  void run(const Plan&, const RunArguments&) const override { ++runs; }

  Tuning tuning;
  bool on_device = false;
  std::string tensor_refusal;
  mutable StepTotals seen;
  mutable int declines_calls = 0;
  mutable int runs = 0;
  mutable int stages = 0;

 private:
  std::string refusal_;
  RaggedAttnBackend id_;
};

inline Plan plan_with(const Backend& backend, const Problem& problem, const StepLayouts& layouts) {
  Plan plan;
  const Backend* list[] = {&backend};
  make_plan(plan, problem, layouts, DeviceFacts::host(1), list);
  return plan;
}

}  // namespace ragged::test
