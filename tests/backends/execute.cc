#include "backends/execute.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace ragged::test {
namespace {

constexpr std::size_t kScratchAlignment = 256;  // of a workspace and of a step's table
constexpr std::uint32_t kBorder = 0xb5;

Result execute_plan(const Target& target, Step& step, const How& how) {
  const Data& data = step.data();
  const Backend* const backends[] = {target.backend};
  Plan plan;
  make_plan(plan, problem_of(data.c, data.dtype), step.layouts(), target.facts, backends,
            target.backend->id());
  const Scratch scratch(*target.memory, plan.workspace_bytes);
  const Scratch table(*target.memory, plan.table_bytes);
  RunArguments arguments = step.arguments(how.lse);
  arguments.workspace = scratch.workspace();
  arguments.table = {table.workspace().data, table.workspace().bytes};
  StageArguments staging;
  staging.table = arguments.table;
  staging.workspace = arguments.workspace;
  stage(plan, staging);
  arguments.executor = how.executor;
  run(plan, arguments);
  EXPECT_FALSE(scratch.overrun()) << "wrote past the workspace of " << plan.workspace_bytes
                                  << " bytes";
  EXPECT_FALSE(table.overrun()) << "wrote past the table of " << plan.table_bytes << " bytes";
  return step.collect(how.lse);
}

}  // namespace

Scratch::Scratch(Memory& memory, std::size_t bytes)
    : memory_(&memory),
      bytes_(bytes),
      border_(kScratchAlignment - bytes % kScratchAlignment),
      buffer_(memory.allocate(bytes + border_, kScratchAlignment)) {
  memory_->fill(buffer_.data(), kBorder, 1, buffer_.bytes());
}

bool Scratch::overrun() const {
  std::vector<std::byte> border(border_);
  memory_->download(border.data(), buffer_.data() + bytes_, border_);
  for (const std::byte value : border) {
    if (value != static_cast<std::byte>(kBorder)) return true;
  }
  return false;
}

Ceilings roomy_ceilings(const Step& step) {
  return {static_cast<std::int64_t>(step.q_side().starts.size()) + 3, step.q_side().rows + 37,
          step.kv_side().rows + step.prefix_side().rows + 41};
}

WrapperOptions wrapper_options(const Target& target, const Case& c, DType dtype) {
  WrapperOptions options;
  options.num_qo_heads = c.num_qo_heads;
  options.num_kv_heads = c.num_kv_heads;
  options.head_dim = c.head_dim;
  options.device = target.memory->device();
  options.sm_scale = c.sm_scale;
  options.q_data_type = dtype;
  options.backend = target.backend->id();
  options.block_size = c.block_size;
  options.facts = target.facts;
  return options;
}

std::variant<RaggedPrefillWrapper, RaggedCrossPrefillWrapper, PrefixedPrefillWrapper,
             RaggedBlockCausalWrapper>
AnyWrapper::make(const Case& c, const WrapperOptions& options) {
  switch (c.kind) {
    case AttentionKind::cross:
      return RaggedCrossPrefillWrapper(options);
    case AttentionKind::prefixed:
      return PrefixedPrefillWrapper(options);
    case AttentionKind::block_causal:
      return RaggedBlockCausalWrapper(options);
    case AttentionKind::self:
      break;
  }
  return RaggedPrefillWrapper(options);
}

AnyWrapper::AnyWrapper(const Case& c, const WrapperOptions& options) : wrapper_(make(c, options)) {}

void AnyWrapper::plan(const Step& step) {
  const Case& c = step.data().c;
  const Side& q = step.q_side();
  const Side& kv = step.kv_side();
  if (!q.gaps) {
    plan(c, {q.cu_seqlens.view(), kv.cu_seqlens.view(), step.prefix_side().cu_seqlens.view()});
    return;
  }
  const SegmentSpans q_spans = {q.span_starts.view(), q.span_lengths.view()};
  if (auto* self = std::get_if<RaggedPrefillWrapper>(&wrapper_)) {
    self->plan(q_spans, c.causal);
  } else if (auto* cross = std::get_if<RaggedCrossPrefillWrapper>(&wrapper_)) {
    cross->plan(q_spans, {kv.span_starts.view(), kv.span_lengths.view()});
  } else if (auto* block = std::get_if<RaggedBlockCausalWrapper>(&wrapper_)) {
    block->plan(q_spans);
  }
}

void AnyWrapper::plan(const Case& c, const StepOffsets& offsets, Stream stream) {
  if (auto* self = std::get_if<RaggedPrefillWrapper>(&wrapper_)) {
    self->plan(offsets.q, c.causal, stream);
  } else if (auto* cross = std::get_if<RaggedCrossPrefillWrapper>(&wrapper_)) {
    cross->plan(offsets.q, offsets.kv, stream);
  } else if (auto* block = std::get_if<RaggedBlockCausalWrapper>(&wrapper_)) {
    block->plan(offsets.q, stream);
  } else if (auto* prefixed = std::get_if<PrefixedPrefillWrapper>(&wrapper_)) {
    if (!c.two_sources()) {
      prefixed->plan(offsets.q, offsets.kv, c.causal, stream);
    } else if (c.kv_lengths.empty()) {
      prefixed->plan_two_sources(offsets.q, offsets.prefix, c.causal, stream);
    } else {
      prefixed->plan_two_sources(offsets.q, offsets.prefix, offsets.kv, c.causal, stream);
    }
  }
}

void AnyWrapper::run(const Step& step, bool with_lse) {
  run(step.data().c, step.arguments(with_lse));
}

void AnyWrapper::run(const Case& c, const RunArguments& a) {
  std::visit(
      [&](auto& wrapper) {
        if constexpr (std::is_same_v<std::decay_t<decltype(wrapper)>, PrefixedPrefillWrapper>) {
          if (c.two_sources()) {
            wrapper.run_two_sources(a.q, a.prefix_k, a.prefix_v, a.k, a.v, a.out, a.lse, a.stream);
            return;
          }
        }
        wrapper.run(a.q, a.k, a.v, a.out, a.lse, a.stream);
      },
      wrapper_);
}

void AnyWrapper::check(Stream stream) {
  std::visit([&](auto& wrapper) { wrapper.check(stream); }, wrapper_);
}

const WrapperBase& AnyWrapper::base() const {
  return std::visit([](const auto& wrapper) -> const WrapperBase& { return wrapper; }, wrapper_);
}

bool refuses_alignment(const Target& target, const Data& data) {
  const bool any_alignment = data.c.any_alignment && target.may_refuse_alignment;
  const bool gaps = target.needs_dense_out && (data.c.row_padding > 0 || data.c.head_padding > 0);
  if (!any_alignment && !gaps) return false;
  try {
    (void)execute(target, data);
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("align") != std::string::npos ||
                text.find("multiples of 16 bytes") != std::string::npos ||
                (gaps && text.find("out must be dense") != std::string::npos))
        << text;
    return true;
  }
  return false;
}

Result execute(const Target& target, const Data& data, const How& how) {
  Step step(data, *target.memory, how.poison, how.only_segment);
  if (how.path == Path::plan) return execute_plan(target, step, how);
  WrapperOptions options = wrapper_options(target, data.c, data.dtype);
  options.executor = how.executor;
  if (how.path == Path::capacity) {
    const Ceilings ceilings = roomy_ceilings(step);
    options.accelerator_graph = true;
    options.max_num_segments = ceilings.max_num_segments;
    options.max_total_tokens = ceilings.max_total_tokens;
    options.max_total_kv_tokens = ceilings.max_total_kv_tokens;
  }
  AnyWrapper wrapper(data.c, options);
  wrapper.plan(step);
  wrapper.run(step, how.lse);
  return step.collect(how.lse);
}

}  // namespace ragged::test
