#include <ragged/c/wrapper.h>

#include <memory>
#include <variant>

#include <ragged/wrappers.hpp>

#include "c_api_executor.hpp"
#include "c_api_run.hpp"

using ragged::AttentionKind;
using ragged::PrefixedPrefillWrapper;
using ragged::RaggedBlockCausalWrapper;
using ragged::RaggedCrossPrefillWrapper;
using ragged::RaggedPrefillWrapper;
using namespace ragged::capi;

// One alternative for each kind.
struct ragged_wrapper {
  AttentionKind kind;
  std::variant<RaggedPrefillWrapper, RaggedCrossPrefillWrapper, RaggedBlockCausalWrapper,
               PrefixedPrefillWrapper>
      of_kind;
  ragged::Stream plan_stream = {};

  [[nodiscard]] const ragged::WrapperBase& base() const {
    return std::visit([](const auto& w) -> const ragged::WrapperBase& { return w; }, of_kind);
  }
};

namespace ragged::capi {

RunViews to_run_views(const ragged_run_arguments* arguments) {
  const ragged_run_arguments c = read(arguments, "arguments");
  RunViews views;
  views.q = to_tensor(c.q, "q");
  views.k = to_tensor(c.k, "k");
  views.v = to_tensor(c.v, "v");
  views.out = to_tensor(c.out, "out");
  views.lse = to_optional_lse(c.lse, "lse");
  views.two_sources = c.prefix_k != nullptr || c.prefix_v != nullptr;
  if (views.two_sources) {
    views.prefix_k = to_tensor(c.prefix_k, "prefix_k");
    views.prefix_v = to_tensor(c.prefix_v, "prefix_v");
  }
  views.stream.handle = c.stream;
  return views;
}

}  // namespace ragged::capi

namespace {

ragged::WrapperOptions to_options(const ragged_wrapper_options* options) {
  const ragged_wrapper_options c = read(options, "options");
  ragged::WrapperOptions result;
  result.num_qo_heads = c.num_qo_heads;
  result.num_kv_heads = c.num_kv_heads;
  result.head_dim = c.head_dim;
  result.sm_scale = to_sm_scale(c.has_sm_scale, c.sm_scale);
  result.max_num_segments = to_ceiling(c.max_num_segments);
  result.max_total_tokens = to_ceiling(c.max_total_tokens);
  result.max_total_kv_tokens = to_ceiling(c.max_total_kv_tokens);
  result.device = to_device(c.device, "options->device");
  result.accelerator_graph = flag(c.accelerator_graph, "options->accelerator_graph");
  result.q_data_type =
      to_optional_dtype(c.q_data_type, "options->q_data_type").value_or(ragged::DType::bf16);
  result.backend = to_backend(c.backend, "options->backend");
  result.block_size = c.block_size;
  result.threads = c.threads;
  result.executor = c.executor;
  if (c.facts != nullptr) result.facts = ragged::DeviceFacts::parse(c.facts);
  result.workspace = {c.workspace, c.workspace_bytes};
  return result;
}

std::unique_ptr<ragged_wrapper> make_wrapper(AttentionKind kind,
                                             const ragged::WrapperOptions& options) {
  switch (kind) {
    case AttentionKind::self:
      return std::make_unique<ragged_wrapper>(ragged_wrapper{kind, RaggedPrefillWrapper(options)});
    case AttentionKind::cross:
      return std::make_unique<ragged_wrapper>(
          ragged_wrapper{kind, RaggedCrossPrefillWrapper(options)});
    case AttentionKind::block_causal:
      return std::make_unique<ragged_wrapper>(
          ragged_wrapper{kind, RaggedBlockCausalWrapper(options)});
    case AttentionKind::prefixed:
      return std::make_unique<ragged_wrapper>(
          ragged_wrapper{kind, PrefixedPrefillWrapper(options)});
  }
  throw ragged::Error(ragged::ErrorCode::internal, "kind is none of the four");
}

// The wrapper as the kind that a call is for; any other kind is refused by name.
template <typename Wrapper>
Wrapper& as(ragged_wrapper* wrapper, const char* wanted) {
  require(wrapper, "wrapper");
  if (auto* found = std::get_if<Wrapper>(&wrapper->of_kind)) return *found;
  refuse(std::string("wrapper must be of kind ") + wanted + "; got " +
         std::string(to_string(wrapper->kind)));
}

const ragged::WrapperBase& base_of(const ragged_wrapper* wrapper) {
  require(wrapper, "wrapper");
  return wrapper->base();
}

// Self and block-causal take the same layouts; the block is the whole mask of the latter.
template <typename Source>
void plan_one_layout(ragged_wrapper* wrapper, const Source& source, int causal) {
  require(wrapper, "wrapper");
  const bool is_causal = flag(causal, "causal");
  if (auto* blocks = std::get_if<RaggedBlockCausalWrapper>(&wrapper->of_kind)) {
    if (is_causal) refuse("causal must be 0 for a wrapper of kind block_causal; got 1");
    blocks->plan(source, wrapper->plan_stream);
    return;
  }
  as<RaggedPrefillWrapper>(wrapper, "self or block_causal")
      .plan(source, is_causal, wrapper->plan_stream);
}

}  // namespace

extern "C" {

int ragged_wrapper_create(ragged_kind kind, const ragged_wrapper_options* options,
                          ragged_wrapper** wrapper) {
  return guarded([&] {
    require(wrapper, "wrapper");
    *wrapper = nullptr;
    *wrapper = make_wrapper(to_kind(kind, "kind"), to_options(options)).release();
  });
}

void ragged_wrapper_destroy(ragged_wrapper* wrapper) { delete wrapper; }

int ragged_wrapper_plan(ragged_wrapper* wrapper, const ragged_index* cu_seqlens, int causal) {
  return guarded([&] { plan_one_layout(wrapper, to_index(cu_seqlens, "cu_seqlens"), causal); });
}

int ragged_wrapper_plan_spans(ragged_wrapper* wrapper, const ragged_spans* spans, int causal) {
  return guarded([&] { plan_one_layout(wrapper, to_spans(spans, "spans"), causal); });
}

int ragged_wrapper_plan_cross(ragged_wrapper* wrapper, const ragged_index* q_cu_seqlens,
                              const ragged_index* kv_cu_seqlens) {
  return guarded([&] {
    as<RaggedCrossPrefillWrapper>(wrapper, "cross")
        .plan(to_index(q_cu_seqlens, "q_cu_seqlens"), to_index(kv_cu_seqlens, "kv_cu_seqlens"),
              wrapper->plan_stream);
  });
}

int ragged_wrapper_plan_cross_spans(ragged_wrapper* wrapper, const ragged_spans* q,
                                    const ragged_spans* kv) {
  return guarded([&] {
    as<RaggedCrossPrefillWrapper>(wrapper, "cross")
        .plan(to_spans(q, "q"), to_spans(kv, "kv"), wrapper->plan_stream);
  });
}

int ragged_wrapper_plan_prefixed(ragged_wrapper* wrapper, const ragged_index* q_cu_seqlens,
                                 const ragged_index* kv_cu_seqlens, int causal) {
  return guarded([&] {
    as<PrefixedPrefillWrapper>(wrapper, "prefixed")
        .plan(to_index(q_cu_seqlens, "q_cu_seqlens"), to_index(kv_cu_seqlens, "kv_cu_seqlens"),
              flag(causal, "causal"), wrapper->plan_stream);
  });
}

int ragged_wrapper_plan_two_sources(ragged_wrapper* wrapper, const ragged_index* q_cu_seqlens,
                                    const ragged_index* prefix_cu_seqlens,
                                    const ragged_index* fresh_cu_seqlens, int causal) {
  return guarded([&] {
    auto& prefixed = as<PrefixedPrefillWrapper>(wrapper, "prefixed");
    const ragged::IndexView q = to_index(q_cu_seqlens, "q_cu_seqlens");
    const ragged::IndexView prefix = to_index(prefix_cu_seqlens, "prefix_cu_seqlens");
    if (fresh_cu_seqlens == nullptr) {
      prefixed.plan_two_sources(q, prefix, flag(causal, "causal"), wrapper->plan_stream);
    } else {
      prefixed.plan_two_sources(q, prefix, to_index(fresh_cu_seqlens, "fresh_cu_seqlens"),
                                flag(causal, "causal"), wrapper->plan_stream);
    }
  });
}

int ragged_wrapper_run(ragged_wrapper* wrapper, const ragged_run_arguments* arguments) {
  return guarded([&] {
    require(wrapper, "wrapper");
    const RunViews run = to_run_views(arguments);
    if (run.two_sources) {
      as<PrefixedPrefillWrapper>(wrapper, "prefixed to take prefix_k and prefix_v")
          .run_two_sources(run.q, run.prefix_k, run.prefix_v, run.k, run.v, run.out, run.lse,
                           run.stream);
      return;
    }
    std::visit([&](auto& w) { w.run(run.q, run.k, run.v, run.out, run.lse, run.stream); },
               wrapper->of_kind);
  });
}

int ragged_wrapper_set_plan_stream(ragged_wrapper* wrapper, void* stream) {
  return guarded([&] {
    require(wrapper, "wrapper");
    wrapper->plan_stream.handle = stream;
  });
}

int ragged_wrapper_check(ragged_wrapper* wrapper, void* stream) {
  return guarded([&] {
    require(wrapper, "wrapper");
    std::visit([&](auto& w) { w.check({stream}); }, wrapper->of_kind);
  });
}

int ragged_wrapper_kind(const ragged_wrapper* wrapper, ragged_kind* kind) {
  return guarded([&] {
    require(wrapper, "wrapper");
    require(kind, "kind");
    *kind = static_cast<ragged_kind>(wrapper->kind);
  });
}

int ragged_wrapper_planned(const ragged_wrapper* wrapper, int32_t* planned) {
  return guarded([&] {
    require(planned, "planned");
    *planned = base_of(wrapper).planned() ? 1 : 0;
  });
}

int ragged_wrapper_num_segments(const ragged_wrapper* wrapper, int64_t* num_segments) {
  return guarded([&] {
    require(num_segments, "num_segments");
    *num_segments = base_of(wrapper).num_segments();
  });
}

int ragged_wrapper_workspace_bytes(const ragged_wrapper* wrapper, size_t* bytes) {
  return guarded([&] {
    require(bytes, "bytes");
    *bytes = base_of(wrapper).workspace_bytes();
  });
}

int ragged_wrapper_current_plan(const ragged_wrapper* wrapper, const ragged_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    *plan = nullptr;
    *plan = to_handle(base_of(wrapper).current_plan());
  });
}

int ragged_wrapper_explain(const ragged_wrapper* wrapper, char* buffer, size_t capacity,
                           size_t* length) {
  return guarded([&] { put_text(base_of(wrapper).explain(), buffer, capacity, length); });
}

int ragged_wrapper_plan_json(const ragged_wrapper* wrapper, int with_units, char* buffer,
                             size_t capacity, size_t* length) {
  return guarded([&] {
    put_text(base_of(wrapper).current_plan().to_json(flag(with_units, "with_units")), buffer,
             capacity, length);
  });
}

}  // extern "C"
