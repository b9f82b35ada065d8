#pragma once

// What the CPU backend's tests share: one step with its tensors, run by any backend on any target.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <ragged/run.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/matrix.hpp"
#include "backends/cpu/targets.hpp"
#include "backends/reference/reference.hpp"
#include "unit/core/support.hpp"

namespace ragged::test {

// Calls its workers one after the other.
class InTurn final : public Executor {
 public:
  explicit InTurn(int workers) : workers_(workers) {}
  [[nodiscard]] int concurrency() const noexcept override { return workers_; }
  void run(int num_workers, void (*task)(void*, int), void* context) override {
    for (int worker = 0; worker < num_workers; ++worker) task(context, worker);
  }

 private:
  int workers_;
};

inline Problem fp32_problem(AttentionKind kind, int num_qo_heads, int num_kv_heads, int head_dim) {
  Problem problem = problem_of(kind, num_qo_heads, num_kv_heads, head_dim);
  problem.dtype = DType::fp32;
  return problem;
}

// A step with tensors of `spare` rows past its layout. Everything starts as seeded normal values.
struct Step {
  Step(Problem p, StepLayouts l, unsigned seed = 1, std::int64_t spare = 0)
      : problem(p),
        layouts(std::move(l)),
        q(p.dtype, layouts.q.extent() + spare, p.num_qo_heads, p.head_dim),
        k(p.dtype, layouts.keys().extent() + spare, p.num_kv_heads, p.head_dim),
        v(k),
        prefix_k(p.dtype, layouts.prefix.extent() + spare, p.num_kv_heads, p.head_dim),
        prefix_v(prefix_k),
        out(q),
        lse(static_cast<std::size_t>(q.shape()[0] * q.shape()[1])) {
    std::mt19937_64 random(seed);
    for (Tensor* tensor : {&q, &k, &v, &prefix_k, &prefix_v}) tensor->fill_normal(random);
  }

  void run(const Backend& backend, std::string_view simd = "scalar", int threads = 1,
           Executor* with = nullptr) {
    DeviceFacts facts = DeviceFacts::host(threads);
    facts.simd = simd;
    const Backend* const backends[] = {&backend};
    Plan plan;
    make_plan(plan, problem, layouts, facts, backends);
    struct alignas(64) Line {
      char bytes[64];
    };
    // Scratch holds NaN: nothing of it may be read before it is written.
    std::vector<Line> storage(plan.workspace_bytes / 64 + 1);
    std::memset(storage.data(), 0xFF, storage.size() * 64);
    InTurn executor(threads);
    RunArguments arguments;
    arguments.q = q.view();
    arguments.k = k.view();
    arguments.v = v.view();
    arguments.prefix_k = prefix_k.view();
    arguments.prefix_v = prefix_v.view();
    out.fill(-7.0f);
    std::fill(lse.begin(), lse.end(), -7.0f);
    arguments.out = out.view();
    arguments.lse = LseView::packed(lse.data(), q.shape()[0], q.shape()[1]);
    arguments.workspace = {storage.data(), plan.workspace_bytes};
    arguments.executor = with != nullptr ? with : &executor;
    ragged::run(plan, arguments);
  }

  [[nodiscard]] float lse_at(std::int64_t token, std::int64_t head) const {
    return lse[static_cast<std::size_t>(token * q.shape()[1] + head)];
  }
  // Bits of output row `token` of `head`, and of its LSE.
  [[nodiscard]] std::string row_bits(std::int64_t token, std::int64_t head) const {
    const auto bytes = static_cast<std::size_t>(problem.head_dim * size_bytes(problem.dtype));
    std::string bits(bytes + sizeof(float), '\0');
    std::memcpy(bits.data(), out.view().row(token, head), bytes);
    const float value = lse_at(token, head);
    std::memcpy(bits.data() + bytes, &value, sizeof(float));
    return bits;
  }
  [[nodiscard]] bool row_is_nan(std::int64_t token, std::int64_t head) const {
    for (std::int64_t d = 0; d < problem.head_dim; ++d) {
      if (!std::isnan(out.at(token, head, d))) return false;
    }
    return true;
  }
  [[nodiscard]] bool row_has_nan(std::int64_t token, std::int64_t head) const {
    for (std::int64_t d = 0; d < problem.head_dim; ++d) {
      if (std::isnan(out.at(token, head, d))) return true;
    }
    return std::isnan(lse_at(token, head));
  }

  Problem problem;
  StepLayouts layouts;
  Tensor q, k, v, prefix_k, prefix_v, out;
  std::vector<float> lse;
};

// Every test of a fixture derived from this runs on each target that the machine has.
class OnEveryTarget : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] const std::string& simd() const { return GetParam(); }
};
inline std::vector<std::string> target_names() {
  std::vector<std::string> names;
  if (cpu::matrix::available()) names.emplace_back("amx");
  for (const cpu::Target& target : cpu::runnable_targets()) names.emplace_back(target.simd);
  return names;
}
inline std::string target_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace ragged::test
