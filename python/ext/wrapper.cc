#include "wrapper.hpp"

#include <algorithm>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "errors.hpp"
#include "indices.hpp"
#include "picture.hpp"
#include "run_tensors.hpp"

namespace ragged::python {
namespace {

using AnyWrapper = std::variant<RaggedPrefillWrapper, RaggedCrossPrefillWrapper,
                                RaggedBlockCausalWrapper, PrefixedPrefillWrapper>;

AnyWrapper make(AttentionKind kind, const WrapperOptions& options) {
  switch (kind) {
    case AttentionKind::self:
      return RaggedPrefillWrapper(options);
    case AttentionKind::cross:
      return RaggedCrossPrefillWrapper(options);
    case AttentionKind::block_causal:
      return RaggedBlockCausalWrapper(options);
    case AttentionKind::prefixed:
      return PrefixedPrefillWrapper(options);
  }
  throw Error(ErrorCode::internal, "kind is none of the four");
}

WrapperOptions with_workspace(WrapperOptions options, nb::handle workspace) {
  if (workspace.is_none()) return options;
  const TensorArgument tensor(workspace, "workspace_buffer", Access::write);
  if (tensor.device() != options.device) {
    throw Error(ErrorCode::invalid_argument,
                "workspace_buffer is on " + to_string(tensor.device()) + "; the wrapper is for " +
                    to_string(options.device));
  }
  std::int64_t bytes = (tensor.raw().dtype.bits + 7) / 8;
  for (int i = tensor.raw().ndim - 1; i >= 0; --i) {
    const std::int64_t packed = bytes * 8 / std::max<std::int64_t>(1, tensor.raw().dtype.bits);
    if (tensor.raw().shape[i] > 1 && tensor.stride(i) != packed) {
      throw Error(ErrorCode::invalid_argument,
                  "workspace_buffer must be contiguous; got " + tensor.describe());
    }
    bytes *= tensor.raw().shape[i];
  }
  // Scratch starts at a multiple of 64 bytes; a buffer of the host's may lie anywhere.
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(tensor.data());
  const std::int64_t skipped = std::min(bytes, static_cast<std::int64_t>((64 - address % 64) % 64));
  options.workspace = {static_cast<char*>(tensor.data()) + skipped,
                       static_cast<std::size_t>(bytes - skipped)};
  return options;
}

// One layout source for each kind: self and block-causal have no keys of their own.
template <typename Source>
void plan_any(AnyWrapper& any, const Source& q, const Source* kv, bool causal, Stream stream) {
  std::visit(
      [&](auto& wrapper) {
        using W = std::remove_reference_t<decltype(wrapper)>;
        if constexpr (std::is_same_v<W, RaggedPrefillWrapper>) {
          wrapper.plan(q, causal, stream);
        } else if constexpr (std::is_same_v<W, RaggedBlockCausalWrapper>) {
          wrapper.plan(q, stream);
        } else if constexpr (std::is_same_v<W, RaggedCrossPrefillWrapper>) {
          wrapper.plan(q, *kv, stream);
        } else if constexpr (std::is_same_v<Source, IndexView>) {
          wrapper.plan(q, *kv, causal, stream);
        } else {
          throw Error(ErrorCode::unsupported,
                      "prefixed attention is planned from cu_seqlens; got SegmentSpans");
        }
      },
      any);
}

PrefixedPrefillWrapper& prefixed(AnyWrapper& any) {
  if (auto* found = std::get_if<PrefixedPrefillWrapper>(&any)) return *found;
  throw Error(ErrorCode::invalid_argument, "two sources belong to prefixed attention alone");
}

bool has_own_keys(AttentionKind kind) noexcept {
  return kind == AttentionKind::cross || kind == AttentionKind::prefixed;
}

}  // namespace

std::int64_t covered_rows(const Plan& plan) {
  const Layout& q = plan.layouts.q;
  return q.known() && !q.has_gaps() ? q.extent() : -1;
}

Wrapper::Wrapper(AttentionKind kind, WrapperOptions options, nb::object workspace)
    : kind_(kind),
      of_kind_(make(kind, with_workspace(std::move(options), workspace))),
      workspace_(std::move(workspace)) {}

const WrapperBase& Wrapper::base() const {
  return std::visit([](const auto& w) -> const WrapperBase& { return w; }, of_kind_);
}

template <typename Action>
std::int64_t Wrapper::planned(Action&& action) {
  const nb::gil_scoped_release unlocked;
  const std::lock_guard lock(mutex_);
  action();
  return covered_rows(base().current_plan());
}

std::int64_t Wrapper::plan(nb::handle q, nb::handle kv, bool causal, nb::handle stream) {
  const IndexArgument q_index(q, has_own_keys(kind_) ? "q_cu_seqlens" : "cu_seqlens");
  std::optional<IndexArgument> kv_index;
  if (has_own_keys(kind_)) kv_index.emplace(kv, "kv_cu_seqlens");
  const Stream on = stream_for(base().options().device, stream, q);
  return planned([&] {
    plan_any(of_kind_, q_index.view(), kv_index ? &kv_index->view() : nullptr, causal, on);
  });
}

std::int64_t Wrapper::plan_spans(nb::handle q, nb::handle kv, bool causal, nb::handle stream) {
  const bool own_keys = has_own_keys(kind_);
  const IndexArgument q_starts(q.attr("starts"), own_keys ? "q.starts" : "spans.starts");
  const IndexArgument q_lengths(q.attr("lengths"), own_keys ? "q.lengths" : "spans.lengths");
  const SegmentSpans q_spans{q_starts.view(), q_lengths.view()};
  const Stream on = stream_for(base().options().device, stream, q);
  if (!own_keys) {
    return planned([&] { plan_any<SegmentSpans>(of_kind_, q_spans, nullptr, causal, on); });
  }
  const IndexArgument kv_starts(kv.attr("starts"), "kv.starts");
  const IndexArgument kv_lengths(kv.attr("lengths"), "kv.lengths");
  const SegmentSpans kv_spans{kv_starts.view(), kv_lengths.view()};
  return planned([&] { plan_any(of_kind_, q_spans, &kv_spans, causal, on); });
}

std::int64_t Wrapper::plan_two_sources(nb::handle q, nb::handle prefix, nb::handle fresh,
                                       bool causal, nb::handle stream) {
  PrefixedPrefillWrapper& wrapper = prefixed(of_kind_);
  const IndexArgument q_index(q, "q_cu_seqlens");
  const IndexArgument prefix_index(prefix, "prefix_cu_seqlens");
  std::optional<IndexArgument> fresh_index;
  if (!fresh.is_none()) fresh_index.emplace(fresh, "fresh_cu_seqlens");
  const Stream on = stream_for(base().options().device, stream, q);
  return planned([&] {
    if (fresh_index) {
      wrapper.plan_two_sources(q_index.view(), prefix_index.view(), fresh_index->view(), causal,
                               on);
    } else {
      wrapper.plan_two_sources(q_index.view(), prefix_index.view(), causal, on);
    }
  });
}

void Wrapper::run(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::handle lse,
                  nb::handle stream) {
  const RunTensors t(q, k, v, out, lse, stream);
  const RunViews views(t);
  const nb::gil_scoped_release unlocked;
  const std::lock_guard lock(mutex_);
  std::visit([&](auto& w) { w.run(views.q, views.k, views.v, views.out, views.lse, t.stream); },
             of_kind_);
}

void Wrapper::run_two_sources(nb::handle q, nb::handle prefix_k, nb::handle prefix_v, nb::handle k,
                              nb::handle v, nb::handle out, nb::handle lse, nb::handle stream) {
  PrefixedPrefillWrapper& wrapper = prefixed(of_kind_);
  const RunTensors t(q, k, v, out, lse, stream);
  const TensorArgument pk(prefix_k, "prefix_k", Access::read);
  const TensorArgument pv(prefix_v, "prefix_v", Access::read);
  const RunViews views(t);
  const TensorView pk_view = pk.view();
  const TensorView pv_view = pv.view();
  const nb::gil_scoped_release unlocked;
  const std::lock_guard lock(mutex_);
  wrapper.run_two_sources(views.q, pk_view, pv_view, views.k, views.v, views.out, views.lse,
                          t.stream);
}

void Wrapper::check(nb::handle stream) {
  const Stream on = stream_for(base().options().device, stream, nb::none());
  const nb::gil_scoped_release unlocked;
  const std::lock_guard lock(mutex_);
  std::visit([&](auto& w) { w.check(on); }, of_kind_);
}

namespace {

// Options by the names of ragged::WrapperOptions; text where Python has no type of ours.
void construct(Wrapper* place, std::string_view kind, int num_qo_heads, int num_kv_heads,
               int head_dim, std::optional<std::int64_t> max_num_segments,
               std::optional<std::int64_t> max_total_tokens,
               std::optional<std::int64_t> max_total_kv_tokens, std::string_view device,
               bool accelerator_graph, std::optional<double> sm_scale, std::string_view q_data_type,
               std::string_view backend, std::int64_t block_size, int threads,
               const std::optional<std::string>& facts, nb::object workspace_buffer) {
  WrapperOptions options;
  options.num_qo_heads = num_qo_heads;
  options.num_kv_heads = num_kv_heads;
  options.head_dim = head_dim;
  options.max_num_segments = max_num_segments;
  options.max_total_tokens = max_total_tokens;
  options.max_total_kv_tokens = max_total_kv_tokens;
  options.device = parse_device(device);
  options.accelerator_graph = accelerator_graph;
  options.sm_scale = sm_scale;
  options.q_data_type = parse_dtype(q_data_type);
  options.backend = parse_backend(backend);
  options.block_size = block_size;
  options.threads = threads;
  if (facts) options.facts = DeviceFacts::parse(*facts);
  new (place) Wrapper(parse_kind(kind), std::move(options), std::move(workspace_buffer));
}

}  // namespace

void bind_wrapper(nb::module_& module) {
  using nb::arg;
  nb::class_<Wrapper>(module, "Wrapper", "The wrappers of all four kinds; see the module wrappers.")
      .def("__init__", construct, arg("kind"), arg("num_qo_heads"), arg("num_kv_heads"),
           arg("head_dim"), arg("max_num_segments").none(), arg("max_total_tokens").none(),
           arg("max_total_kv_tokens").none(), arg("device"), arg("accelerator_graph"),
           arg("sm_scale").none(), arg("q_data_type"), arg("backend"), arg("block_size"),
           arg("threads"), arg("facts").none(), arg("workspace_buffer").none())
      .def("plan", &Wrapper::plan, arg("q").none(), arg("kv").none(), arg("causal"),
           arg("stream").none())
      .def("plan_spans", &Wrapper::plan_spans, arg("q").none(), arg("kv").none(), arg("causal"),
           arg("stream").none())
      .def("plan_two_sources", &Wrapper::plan_two_sources, arg("q").none(), arg("prefix").none(),
           arg("fresh").none(), arg("causal"), arg("stream").none())
      .def("run", &Wrapper::run, arg("q").none(), arg("k").none(), arg("v").none(),
           arg("out").none(), arg("lse").none(), arg("stream").none())
      .def("run_two_sources", &Wrapper::run_two_sources, arg("q").none(), arg("prefix_k").none(),
           arg("prefix_v").none(), arg("k").none(), arg("v").none(), arg("out").none(),
           arg("lse").none(), arg("stream").none())
      .def("check", &Wrapper::check, arg("stream").none())
      .def_prop_ro("planned", [](const Wrapper& w) { return w.base().planned(); })
      .def_prop_ro("num_segments", [](const Wrapper& w) { return w.base().num_segments(); })
      .def_prop_ro("workspace_bytes", [](const Wrapper& w) { return w.base().workspace_bytes(); })
      .def("explain", [](const Wrapper& w) { return w.base().explain(); })
      .def(
          "to_json",
          [](const Wrapper& w, bool units) { return w.base().current_plan().to_json(units); },
          arg("with_units"))
      .def(
          "draw",
          [](const Wrapper& w, std::int64_t most) {
            return picture_of(w.base().current_plan(), most);
          },
          arg("segments"));
}

}  // namespace ragged::python
