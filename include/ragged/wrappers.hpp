#pragma once

// A wrapper owns one plan and its static buffers: construct once, plan(...) a step, run(...) for
// every layer. Not for use by two threads at once; two wrappers never disturb each other.
//
// On a GPU a plan starts on its stream what makes the step's table, and never waits for the device:
// offsets on the host are free when plan() returns, offsets on the GPU are read when the stream
// comes to it. A run on another stream comes after the plan, and a plan after the runs before it;
// docs/gpu.md says what holds while a graph is captured.

#include <memory>

#include <ragged/run.hpp>

namespace ragged {

struct WrapperOptions {
  int num_qo_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  // Ceilings; all that apply are needed with accelerator_graph, and checked wherever given.
  std::optional<std::int64_t> max_num_segments = std::nullopt;
  std::optional<std::int64_t> max_total_tokens = std::nullopt;
  // Cross and prefixed; defaults to max_total_tokens. With two sources it bounds prefix and fresh
  // keys together.
  std::optional<std::int64_t> max_total_kv_tokens = std::nullopt;
  Device device = {};
  // Capacity mode: choices and buffers come from the ceilings alone, so that one captured graph
  // replays any layout within them, and a plan allocates nothing. Causal or not, one source or two:
  // each form has buffers of its own, whose addresses never change.
  bool accelerator_graph = false;
  std::optional<double> sm_scale = std::nullopt;  // none: head_dim ** -0.5
  DType q_data_type = DType::bf16;

  RaggedAttnBackend backend = RaggedAttnBackend::AUTO;
  std::int64_t block_size = 0;  // tokens; RaggedBlockCausalWrapper only
  int threads = 0;  // CPU workers of a run, at most 4096; 0: as many as the executor offers
  Executor* executor = nullptr;  // null: default_executor(); must outlive the wrapper
  // Facts to plan on; none: this machine's. Narrower ones (an older SIMD target) are honoured by
  // run.
  std::optional<DeviceFacts> facts = std::nullopt;
  // Scratch that the caller owns; null: the wrapper's own. Checked against workspace_bytes().
  Workspace workspace = {};
};

namespace detail {
class PlanRunner;  // src/plan_runner.hpp
}

// What every wrapper answers.
class WrapperBase {
 public:
  // The last plan. Throws not_planned before the first.
  [[nodiscard]] const Plan& current_plan() const;
  [[nodiscard]] std::string explain() const { return current_plan().explain(); }
  [[nodiscard]] bool planned() const noexcept;
  // Segments of the last plan, zero-length ones included.
  [[nodiscard]] std::int64_t num_segments() const {
    return current_plan().layouts.q.num_segments();
  }
  // Exact scratch size of the last plan; in capacity mode known from construction.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  [[nodiscard]] const WrapperOptions& options() const noexcept;
  // Offsets on a GPU are checked there, and a run of a step whose offsets are wrong writes nothing:
  // this waits for the stream and throws what was found, in the words of offsets on the host. So
  // does the next plan or run that comes to know of it.
  void check(Stream stream = {});

 protected:
  WrapperBase(AttentionKind kind, const WrapperOptions& options);
  ~WrapperBase();
  WrapperBase(WrapperBase&&) noexcept;
  WrapperBase& operator=(WrapperBase&&) noexcept;
  std::unique_ptr<detail::PlanRunner> runner_;
};

// Varlen self-attention: each segment attends within itself.
class RaggedPrefillWrapper : public WrapperBase {
 public:
  // Throws invalid_argument naming the option that is out of its range or missing; unsupported,
  // with each backend's reason, where no backend of this build serves the problem on the device.
  explicit RaggedPrefillWrapper(const WrapperOptions& options);
  // cu_seqlens: [num_segments + 1], first 0; host preferred. Safe before every replay: values are
  // copied through the static buffers, never rebound. A layout equal to the last costs next to
  // nothing. On a throw the plan before it still works.
  void plan(const IndexView& cu_seqlens, bool causal = false, Stream stream = {});
  void plan(const SegmentSpans& spans, bool causal = false, Stream stream = {});
  // q, out: [>= tokens, num_qo_heads, head_dim]; k, v: [>= tokens, num_kv_heads, head_dim]; lse:
  // [>= tokens, num_qo_heads] or none. Throws what ragged::run throws; not_planned before a plan.
  void run(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const LseView& lse = {}, Stream stream = {});
};

// Varlen cross-attention: query segment i attends key segment i. Never causal.
class RaggedCrossPrefillWrapper : public WrapperBase {
 public:
  explicit RaggedCrossPrefillWrapper(const WrapperOptions& options);
  void plan(const IndexView& q_cu_seqlens, const IndexView& kv_cu_seqlens, Stream stream = {});
  void plan(const SegmentSpans& q, const SegmentSpans& kv, Stream stream = {});
  void run(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const LseView& lse = {}, Stream stream = {});
};

// Query segment i attends key segment i: a frozen prefix followed by the query's own tokens.
// Causal aligns the queries to the end of their keys.
class PrefixedPrefillWrapper : public WrapperBase {
 public:
  explicit PrefixedPrefillWrapper(const WrapperOptions& options);
  // Keys already joined: kv_cu_seqlens counts prefix and fresh tokens.
  void plan(const IndexView& q_cu_seqlens, const IndexView& kv_cu_seqlens, bool causal = false,
            Stream stream = {});
  // Two sources: prefix K/V laid out by prefix_cu_seqlens, fresh K/V by q_cu_seqlens. Never joined
  // in memory.
  void plan_two_sources(const IndexView& q_cu_seqlens, const IndexView& prefix_cu_seqlens,
                        bool causal = false, Stream stream = {});
  // The same with fresh keys in offsets of their own.
  void plan_two_sources(const IndexView& q_cu_seqlens, const IndexView& prefix_cu_seqlens,
                        const IndexView& fresh_cu_seqlens, bool causal, Stream stream = {});
  // After plan(...): joined keys.
  void run(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const LseView& lse = {}, Stream stream = {});
  // After plan_two_sources(...).
  void run_two_sources(const TensorView& q, const TensorView& prefix_k, const TensorView& prefix_v,
                       const TensorView& k, const TensorView& v, const TensorView& out,
                       const LseView& lse = {}, Stream stream = {});
};

// Block-causal self-attention: a token of block b of its span (options.block_size tokens a block,
// from the span's start) attends every key of blocks 0..b of its span.
class RaggedBlockCausalWrapper : public WrapperBase {
 public:
  explicit RaggedBlockCausalWrapper(const WrapperOptions& options);
  void plan(const IndexView& cu_seqlens, Stream stream = {});
  void plan(const SegmentSpans& spans, Stream stream = {});
  void run(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
           const LseView& lse = {}, Stream stream = {});
};

}  // namespace ragged
