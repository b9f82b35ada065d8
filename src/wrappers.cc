#include <ragged/wrappers.hpp>

#include "memory_errors.hpp"
#include "plan_runner.hpp"

namespace ragged {
namespace {

using detail::LayoutSource;

// What stands behind a wrapper. A wrapper that was moved from can only be destroyed or assigned to.
detail::PlanRunner& live(const std::unique_ptr<detail::PlanRunner>& runner) {
  if (!runner) throw Error(ErrorCode::invalid_state, "this wrapper was moved from");
  return *runner;
}

detail::RunInput one_source(const TensorView& q, const TensorView& k, const TensorView& v,
                            const TensorView& out, const LseView& lse, Stream stream) {
  detail::RunInput input;
  input.q = q;
  input.k = k;
  input.v = v;
  input.out = out;
  input.lse = lse;
  input.stream = stream;
  return input;
}

}  // namespace

WrapperBase::WrapperBase(AttentionKind kind, const WrapperOptions& options)
    : runner_(detail::with_memory_errors(
          [&] { return std::make_unique<detail::PlanRunner>(kind, options); })) {}
WrapperBase::~WrapperBase() = default;
WrapperBase::WrapperBase(WrapperBase&&) noexcept = default;
WrapperBase& WrapperBase::operator=(WrapperBase&&) noexcept = default;

const Plan& WrapperBase::current_plan() const { return live(runner_).current_plan(); }

bool WrapperBase::planned() const noexcept { return runner_ && runner_->planned(); }

std::size_t WrapperBase::workspace_bytes() const noexcept {
  return runner_ ? runner_->workspace_bytes() : 0;
}

const WrapperOptions& WrapperBase::options() const noexcept {
  static const WrapperOptions none;
  return runner_ ? runner_->options() : none;
}

void WrapperBase::check(Stream stream) { live(runner_).check(stream); }

RaggedPrefillWrapper::RaggedPrefillWrapper(const WrapperOptions& options)
    : WrapperBase(AttentionKind::self, options) {}

void RaggedPrefillWrapper::plan(const IndexView& cu_seqlens, bool causal, Stream stream) {
  live(runner_).plan(
      {.q = LayoutSource("cu_seqlens", cu_seqlens), .causal = causal, .stream = stream});
}

void RaggedPrefillWrapper::plan(const SegmentSpans& spans, bool causal, Stream stream) {
  live(runner_).plan({.q = LayoutSource("spans", spans), .causal = causal, .stream = stream});
}

void RaggedPrefillWrapper::run(const TensorView& q, const TensorView& k, const TensorView& v,
                               const TensorView& out, const LseView& lse, Stream stream) {
  live(runner_).run(one_source(q, k, v, out, lse, stream));
}

RaggedCrossPrefillWrapper::RaggedCrossPrefillWrapper(const WrapperOptions& options)
    : WrapperBase(AttentionKind::cross, options) {}

void RaggedCrossPrefillWrapper::plan(const IndexView& q_cu_seqlens, const IndexView& kv_cu_seqlens,
                                     Stream stream) {
  live(runner_).plan({.q = LayoutSource("q_cu_seqlens", q_cu_seqlens),
                      .kv = LayoutSource("kv_cu_seqlens", kv_cu_seqlens),
                      .stream = stream});
}

void RaggedCrossPrefillWrapper::plan(const SegmentSpans& q, const SegmentSpans& kv, Stream stream) {
  live(runner_).plan({.q = LayoutSource("q", q), .kv = LayoutSource("kv", kv), .stream = stream});
}

void RaggedCrossPrefillWrapper::run(const TensorView& q, const TensorView& k, const TensorView& v,
                                    const TensorView& out, const LseView& lse, Stream stream) {
  live(runner_).run(one_source(q, k, v, out, lse, stream));
}

PrefixedPrefillWrapper::PrefixedPrefillWrapper(const WrapperOptions& options)
    : WrapperBase(AttentionKind::prefixed, options) {}

void PrefixedPrefillWrapper::plan(const IndexView& q_cu_seqlens, const IndexView& kv_cu_seqlens,
                                  bool causal, Stream stream) {
  live(runner_).plan({.q = LayoutSource("q_cu_seqlens", q_cu_seqlens),
                      .kv = LayoutSource("kv_cu_seqlens", kv_cu_seqlens),
                      .causal = causal,
                      .stream = stream});
}

void PrefixedPrefillWrapper::plan_two_sources(const IndexView& q_cu_seqlens,
                                              const IndexView& prefix_cu_seqlens, bool causal,
                                              Stream stream) {
  live(runner_).plan({.q = LayoutSource("q_cu_seqlens", q_cu_seqlens),
                      .prefix = LayoutSource("prefix_cu_seqlens", prefix_cu_seqlens),
                      .causal = causal,
                      .two_sources = true,
                      .stream = stream});
}

void PrefixedPrefillWrapper::plan_two_sources(const IndexView& q_cu_seqlens,
                                              const IndexView& prefix_cu_seqlens,
                                              const IndexView& fresh_cu_seqlens, bool causal,
                                              Stream stream) {
  live(runner_).plan({.q = LayoutSource("q_cu_seqlens", q_cu_seqlens),
                      .kv = LayoutSource("fresh_cu_seqlens", fresh_cu_seqlens),
                      .prefix = LayoutSource("prefix_cu_seqlens", prefix_cu_seqlens),
                      .causal = causal,
                      .two_sources = true,
                      .stream = stream});
}

void PrefixedPrefillWrapper::run(const TensorView& q, const TensorView& k, const TensorView& v,
                                 const TensorView& out, const LseView& lse, Stream stream) {
  live(runner_).run(one_source(q, k, v, out, lse, stream));
}

void PrefixedPrefillWrapper::run_two_sources(const TensorView& q, const TensorView& prefix_k,
                                             const TensorView& prefix_v, const TensorView& k,
                                             const TensorView& v, const TensorView& out,
                                             const LseView& lse, Stream stream) {
  detail::RunInput input = one_source(q, k, v, out, lse, stream);
  input.prefix_k = prefix_k;
  input.prefix_v = prefix_v;
  input.two_sources = true;
  live(runner_).run(input);
}

RaggedBlockCausalWrapper::RaggedBlockCausalWrapper(const WrapperOptions& options)
    : WrapperBase(AttentionKind::block_causal, options) {}

void RaggedBlockCausalWrapper::plan(const IndexView& cu_seqlens, Stream stream) {
  live(runner_).plan({.q = LayoutSource("cu_seqlens", cu_seqlens), .stream = stream});
}

void RaggedBlockCausalWrapper::plan(const SegmentSpans& spans, Stream stream) {
  live(runner_).plan({.q = LayoutSource("spans", spans), .stream = stream});
}

void RaggedBlockCausalWrapper::run(const TensorView& q, const TensorView& k, const TensorView& v,
                                   const TensorView& out, const LseView& lse, Stream stream) {
  live(runner_).run(one_source(q, k, v, out, lse, stream));
}

}  // namespace ragged
