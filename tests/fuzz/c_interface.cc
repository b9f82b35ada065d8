// Any sequence of calls of the C interface, on small steps and buffers of exactly their size: a
// call gives RAGGED_OK or another code with a message, never the code of a bug; nothing is read or
// written beyond what the caller brought.

#include <array>
#include <string>

#include "c_buffers.hpp"
#include "check.hpp"

namespace {

using fuzz::In;
using fuzz::Index;
using fuzz::rarely;
using fuzz::Struct;

bool ok(int code) {
  FUZZ_CHECK(code >= RAGGED_OK && code < RAGGED_ERROR_INTERNAL);
  if (code != RAGGED_OK) FUZZ_CHECK(ragged_last_error()[0] != '\0');
  return code == RAGGED_OK;
}

// What a handle was made with, to bring tensors that mostly fit.
struct Shape {
  ragged_dtype dtype = RAGGED_DTYPE_FP32;
  int num_qo_heads = 1, num_kv_heads = 1, head_dim = 8;
};

struct Wrapper {
  ragged_wrapper* handle = nullptr;
  ragged_kind kind = RAGGED_KIND_SELF;
  Shape shape;
  // Of the last plan.
  std::int64_t rows = 0, kv_rows = 0, prefix_rows = 0;
  bool two_sources = false;
};

struct Manager {
  ragged_manager* handle = nullptr;
  ragged_kind kind = RAGGED_KIND_SELF;
  Shape shape;
};

Shape shape(In& in) {
  Shape s;
  s.dtype = in.ConsumeIntegralInRange<int>(RAGGED_DTYPE_BF16, RAGGED_DTYPE_FP32);
  s.num_kv_heads = in.ConsumeIntegralInRange<int>(1, 2);
  s.num_qo_heads = s.num_kv_heads * in.ConsumeIntegralInRange<int>(1, 2);
  s.head_dim = 8 * in.ConsumeIntegralInRange<int>(1, 5);
  if (rarely(in)) s.num_qo_heads = in.ConsumeIntegralInRange<int>(-1, 3);
  if (rarely(in)) s.head_dim = in.ConsumeIntegralInRange<int>(-1, 300);
  return s;
}

// None, small, negative, or beyond every address space.
std::int64_t ceiling(In& in) {
  if (in.ConsumeBool()) return 0;
  if (rarely(in)) return in.PickValueInArray<std::int64_t>({-1, INT64_MIN, INT64_MAX});
  return in.ConsumeIntegralInRange<std::int64_t>(1, 64);
}

std::vector<std::int64_t> lengths(In& in, std::size_t count) {
  std::vector<std::int64_t> result(count);
  for (auto& value : result) value = in.ConsumeIntegralInRange<std::int64_t>(0, 9);
  return result;
}

std::vector<std::int64_t> offsets(In& in, const std::vector<std::int64_t>& of) {
  std::vector<std::int64_t> result(of.size() + 1);
  FUZZ_CHECK(ok(ragged_offsets_from_lengths(of.data(), of.size(), result.data())));
  if (rarely(in)) {
    result[in.ConsumeIntegralInRange<std::size_t>(0, of.size())] =
        in.PickValueInArray<std::int64_t>({-1, 3, 100, INT64_MIN, INT64_MAX});
  }
  return result;
}

template <typename Call>
void text(In& in, Call&& call) {
  std::size_t length = 0;
  if (!ok(call(nullptr, std::size_t{0}, &length))) return;
  const std::size_t capacity =
      rarely(in) ? in.ConsumeIntegralInRange<std::size_t>(0, length) : length + 1;
  const auto buffer = std::make_unique<char[]>(capacity);
  if (ok(call(buffer.get(), capacity, nullptr))) {
    FUZZ_CHECK(std::strlen(buffer.get()) == length);
  }
}

class Session {
 public:
  explicit Session(In& in) : in_(in) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    for (Wrapper& wrapper : wrappers_) ragged_wrapper_destroy(wrapper.handle);
    ragged_manager_destroy(manager_.handle);
  }

  void step() {
    in_.hostile = in_.ConsumeIntegralInRange<int>(0, 2) == 0;
    switch (in_.ConsumeIntegralInRange<int>(0, 12)) {
      case 0:
        return create(wrapper());
      case 1:
      case 2:
      case 3:
        return plan(wrapper());
      case 4:
      case 5:
        return run(wrapper());
      case 6:
        return ask(wrapper());
      case 7:
        return create_manager();
      case 8:
      case 9:
        return plan_manager();
      case 10:
        return run_manager();
      case 11:
        return ask_manager();
      default:
        return configure();
    }
  }

 private:
  // One of the wrappers, made if it was not; it may have been refused.
  Wrapper& wrapper() {
    Wrapper& w = wrappers_[in_.ConsumeIntegralInRange<std::size_t>(0, wrappers_.size() - 1)];
    if (w.handle == nullptr && !in_.hostile) create(w);
    return w;
  }

  void create(Wrapper& w) {
    ragged_wrapper_destroy(w.handle);
    w = {};
    w.kind = in_.ConsumeIntegralInRange<int>(RAGGED_KIND_SELF, RAGGED_KIND_PREFIXED);
    w.shape = shape(in_);
    ragged_wrapper_options options = {};
    options.num_qo_heads = w.shape.num_qo_heads;
    options.num_kv_heads = w.shape.num_kv_heads;
    options.head_dim = w.shape.head_dim;
    options.q_data_type = w.shape.dtype;
    options.max_num_segments = ceiling(in_);
    options.max_total_tokens = ceiling(in_);
    options.max_total_kv_tokens = ceiling(in_);
    const bool ceilings = options.max_num_segments > 0 && options.max_total_tokens > 0;
    options.accelerator_graph =
        rarely(in_) ? in_.ConsumeIntegral<std::int32_t>() : (ceilings && in_.ConsumeBool() ? 1 : 0);
    options.backend = rarely(in_)
                          ? in_.ConsumeIntegralInRange<int>(-1, 7)
                          : in_.PickValueInArray({RAGGED_BACKEND_AUTO, RAGGED_BACKEND_REFERENCE});
    options.threads = 1;
    if (w.kind == RAGGED_KIND_BLOCK_CAUSAL) {
      options.block_size = in_.ConsumeBool() ? in_.ConsumeIntegralInRange<std::int64_t>(1, 9)
                                             : in_.ConsumeIntegral<std::int64_t>();
    }
    if (rarely(in_)) options.facts = in_.PickValueInArray({"cpu", "cpu:avx2:8", "h200", "z80", ""});
    if (rarely(in_)) options.has_sm_scale = in_.ConsumeIntegralInRange<int>(0, 2);
    if (rarely(in_)) options.sm_scale = in_.ConsumeFloatingPoint<double>();
    const Struct<ragged_wrapper_options> given(in_, options);
    FUZZ_CHECK(ok(ragged_wrapper_create(w.kind, given.get(), &w.handle)) == (w.handle != nullptr));
  }

  void plan(Wrapper& w) {
    const std::size_t segments = in_.ConsumeIntegralInRange<std::size_t>(0, 5);
    const auto q = offsets(in_, lengths(in_, segments));
    const auto kv = offsets(in_, lengths(in_, rarely(in_) ? 2 : segments));
    const Index cu_q(in_, q), cu_kv(in_, kv);
    const int causal = rarely(in_) ? in_.ConsumeIntegral<int>() : (in_.ConsumeBool() ? 1 : 0);
    const ragged_kind as =
        rarely(in_) ? in_.ConsumeIntegralInRange<int>(RAGGED_KIND_SELF, RAGGED_KIND_PREFIXED)
                    : w.kind;
    bool planned = false, two_sources = false;
    std::int64_t kv_rows = q.back(), prefix_rows = 0;
    if (as == RAGGED_KIND_CROSS) {
      planned = ok(ragged_wrapper_plan_cross(w.handle, cu_q.get(), cu_kv.get()));
      kv_rows = kv.back();
    } else if (as == RAGGED_KIND_PREFIXED && in_.ConsumeBool()) {
      const auto fresh = offsets(in_, lengths(in_, segments));
      const Index cu_fresh(in_, fresh);
      const bool own = in_.ConsumeBool();
      planned = ok(ragged_wrapper_plan_two_sources(w.handle, cu_q.get(), cu_kv.get(),
                                                   own ? cu_fresh.get() : nullptr, causal));
      kv_rows = own ? fresh.back() : q.back();
      prefix_rows = kv.back();
      two_sources = true;
    } else if (as == RAGGED_KIND_PREFIXED) {
      planned = ok(ragged_wrapper_plan_prefixed(w.handle, cu_q.get(), cu_kv.get(), causal));
      kv_rows = kv.back();
    } else if (in_.ConsumeBool()) {
      planned = ok(ragged_wrapper_plan(w.handle, cu_q.get(), causal));
    } else {
      plan_spans(w);
      return;
    }
    if (!planned) return;
    w.rows = q.back();
    w.kv_rows = kv_rows;
    w.prefix_rows = prefix_rows;
    w.two_sources = two_sources;
  }

  void plan_spans(Wrapper& w) {
    const std::size_t segments = in_.ConsumeIntegralInRange<std::size_t>(0, 5);
    const auto length = lengths(in_, segments);
    auto start = offsets(in_, length);
    start.pop_back();
    std::int64_t shift = 0, rows = 0;
    for (std::size_t i = 0; i < segments; ++i) {
      shift += in_.ConsumeIntegralInRange<std::int64_t>(0, 2);
      if (start[i] < 1000) start[i] += shift;
      if (length[i] > 0 && start[i] < 1000) rows = std::max(rows, start[i] + length[i]);
    }
    const Index starts(in_, start), lengths_of(in_, length);
    ragged_spans spans = {};
    spans.starts = starts.get();
    spans.lengths = lengths_of.get();
    const Struct<ragged_spans> given(in_, spans);
    const bool cross = w.kind == RAGGED_KIND_CROSS;
    const bool planned =
        ok(cross ? ragged_wrapper_plan_cross_spans(w.handle, given.get(), given.get())
                 : ragged_wrapper_plan_spans(w.handle, given.get(), 0));
    if (planned) {
      w.rows = w.kv_rows = rows;
      w.prefix_rows = 0;
      w.two_sources = false;
    }
  }

  // Calls `run` with tensors of these rows, more or less.
  template <typename Run>
  void with_tensors(const Shape& s, std::int64_t rows, std::int64_t kv_rows,
                    std::int64_t prefix_rows, bool two_sources, Run&& run) {
    const auto fit = [](std::int64_t count) { return std::clamp<std::int64_t>(count, 0, 256); };
    const fuzz::Tensor q(in_, s.dtype, fit(rows), s.num_qo_heads, s.head_dim);
    const fuzz::Tensor k(in_, s.dtype, fit(kv_rows), s.num_kv_heads, s.head_dim);
    const fuzz::Tensor v(in_, s.dtype, fit(kv_rows), s.num_kv_heads, s.head_dim);
    const fuzz::Tensor out(in_, s.dtype, fit(rows), s.num_qo_heads, s.head_dim);
    const fuzz::Tensor prefix_k(in_, s.dtype, fit(prefix_rows), s.num_kv_heads, s.head_dim);
    const fuzz::Tensor prefix_v(in_, s.dtype, fit(prefix_rows), s.num_kv_heads, s.head_dim);
    const fuzz::Lse lse(in_, fit(rows), std::max(s.num_qo_heads, 0));
    ragged_run_arguments arguments = {};
    arguments.q = q.get();
    arguments.k = k.get();
    arguments.v = v.get();
    arguments.out = out.get();
    if (in_.ConsumeBool()) arguments.lse = lse.get();
    if (two_sources || rarely(in_)) {
      arguments.prefix_k = prefix_k.get();
      arguments.prefix_v = prefix_v.get();
    }
    const Struct<ragged_run_arguments> given(in_, arguments);
    run(given.get());
  }

  void run(Wrapper& w) {
    with_tensors(w.shape, w.rows, w.kv_rows, w.prefix_rows, w.two_sources,
                 [&](const ragged_run_arguments* arguments) {
                   ok(ragged_wrapper_run(w.handle, arguments));
                 });
  }

  void ask(const Wrapper& w) {
    ragged_kind kind = -1;
    std::int32_t planned = 0;
    std::int64_t segments = 0;
    std::size_t bytes = 0;
    const ragged_plan* plan = nullptr;
    if (ok(ragged_wrapper_kind(w.handle, &kind))) FUZZ_CHECK(kind == w.kind);
    ok(ragged_wrapper_planned(w.handle, &planned));
    FUZZ_CHECK(ok(ragged_wrapper_num_segments(w.handle, &segments)) == (planned == 1));
    ok(ragged_wrapper_workspace_bytes(w.handle, &bytes));
    FUZZ_CHECK(ok(ragged_wrapper_current_plan(w.handle, &plan)) == (plan != nullptr));
    describe(plan);
    text(in_, [&](char* buffer, std::size_t capacity, std::size_t* length) {
      return ragged_wrapper_explain(w.handle, buffer, capacity, length);
    });
  }

  void describe(const ragged_plan* plan) {
    const Struct<ragged_plan_info> info(in_, {});
    ok(ragged_plan_get_info(plan, info.get()));
    text(in_, [&](char* buffer, std::size_t capacity, std::size_t* length) {
      return ragged_plan_json(plan, 1, buffer, capacity, length);
    });
  }

  ragged_config config(const Shape& s) {
    ragged_config c = {};
    c.num_qo_heads = s.num_qo_heads;
    c.num_kv_heads = s.num_kv_heads;
    c.head_dim = s.head_dim;
    c.dtype = rarely(in_) ? RAGGED_DTYPE_NONE : s.dtype;
    c.max_segments_per_request = in_.ConsumeIntegralInRange<int>(0, 3);
    if (rarely(in_)) c.max_tokens_per_request = ceiling(in_);
    if (rarely(in_)) c.backend = in_.ConsumeIntegralInRange<int>(-1, 7);
    return c;
  }

  void create_manager() {
    ragged_manager_destroy(manager_.handle);
    manager_ = {};
    manager_.kind = in_.ConsumeIntegralInRange<int>(RAGGED_KIND_SELF, RAGGED_KIND_PREFIXED);
    manager_.shape = shape(in_);
    const Struct<ragged_config> c(in_, config(manager_.shape));
    const std::array<const char*, 2> nodes = {"encoder", rarely(in_) ? nullptr : "decoder"};
    ragged_spec spec = {};
    spec.resource_key = "r";
    spec.nodes = nodes.data();
    spec.num_nodes = in_.ConsumeIntegralInRange<std::size_t>(0, 2);
    spec.config = c.get();
    spec.kind = manager_.kind;
    if (manager_.kind == RAGGED_KIND_BLOCK_CAUSAL || rarely(in_)) {
      spec.block_size = in_.ConsumeIntegralInRange<int>(0, 9);
    }
    ragged_engine_options engine = {};
    engine.threads = 1;
    engine.num_shards = rarely(in_) ? in_.ConsumeIntegralInRange<int>(-1, 3) : 0;
    engine.num_slots = in_.ConsumeIntegralInRange<int>(0, 3);
    const Struct<ragged_spec> given(in_, spec);
    const Struct<ragged_engine_options> options(in_, engine);
    FUZZ_CHECK(ok(ragged_manager_create(given.get(), options.get(), &manager_.handle)) ==
               (manager_.handle != nullptr));
    if (engine.num_shards > 1) manager_.shape.num_qo_heads /= engine.num_shards;
  }

  void plan_manager() {
    if (manager_.handle == nullptr && !in_.hostile) create_manager();
    const std::array<const char*, 3> labels = {"main", "a", "b"};
    const std::array<const char*, 2> requests = {"x", "y"};
    std::vector<ragged_segment> segments;
    const std::size_t per_label = in_.ConsumeIntegralInRange<std::size_t>(0, 2);
    for (const char* label : labels) {
      for (std::size_t i = 0; i < per_label; ++i) {
        ragged_segment s = {};
        s.struct_size = sizeof(s);
        s.request_id = rarely(in_) ? requests[0] : requests[i];
        s.label = label;
        s.span = rarely(in_) ? in_.PickValueInArray<std::int64_t>({-1, INT64_MAX, 1000})
                             : in_.ConsumeIntegralInRange<std::int64_t>(0, 9);
        segments.push_back(s);
      }
    }
    ragged_label_pair pair = {};
    pair.q_label = labels[0];
    pair.kv_label = rarely(in_) ? "none" : labels[in_.ConsumeIntegralInRange<std::size_t>(0, 2)];
    const Struct<ragged_label_pair> pairs(in_, pair);

    const bool paired = manager_.kind == RAGGED_KIND_CROSS || manager_.kind == RAGGED_KIND_PREFIXED;
    ragged_step step = {};
    step.type = manager_.kind == RAGGED_KIND_CROSS
                    ? RAGGED_STEP_CROSS
                    : (manager_.kind == RAGGED_KIND_PREFIXED ? RAGGED_STEP_PREFIXED
                                                             : RAGGED_STEP_ATTENTION);
    if (rarely(in_)) step.type = in_.ConsumeIntegralInRange<int>(-1, 3);
    step.has_segments = 1;
    step.segments = segments.data();
    step.num_segments = segments.size();
    step.pairs = pairs.get();
    step.num_pairs = paired ? 1 : 0;
    step.causal = step.type != RAGGED_STEP_CROSS && in_.ConsumeBool() ? 1 : 0;
    step.two_sources = step.type == RAGGED_STEP_PREFIXED && in_.ConsumeBool() ? 1 : 0;

    ragged_slot_lease lease = {};
    lease.graph_walk = "walk";
    lease.bs = in_.ConsumeIntegralInRange<int>(rarely(in_) ? -1 : 1, 3);
    lease.num_tokens = in_.ConsumeIntegralInRange<int>(1, 40);
    lease.slot = in_.ConsumeIntegralInRange<int>(rarely(in_) ? -1 : 0, 2);
    const Struct<ragged_slot_lease> leased(in_, lease);
    ragged_plan_context context = {};
    context.lease = in_.ConsumeBool() ? leased.get() : nullptr;
    context.inherited_segments = segments.data();
    context.num_inherited_segments = segments.size();
    if (in_.ConsumeBool() && !segments.empty()) {
      step.has_segments = 0;
      step.num_segments = 0;
    }
    const Struct<ragged_step> given(in_, step);
    const Struct<ragged_plan_context> around(in_, context);
    switch (in_.ConsumeIntegralInRange<int>(0, 3)) {
      case 0:
        ok(ragged_manager_preplan(manager_.handle, given.get(), around.get()));
        break;
      case 1:
        ok(ragged_manager_clear_preplan(manager_.handle));
        break;
      default:
        ok(ragged_manager_plan(manager_.handle, given.get(), around.get()));
    }
  }

  // A planned label, or one that is not.
  std::string label() {
    std::size_t count = 0;
    if (!ok(ragged_manager_num_planned_labels(manager_.handle, &count)) || count == 0)
      return "none";
    std::array<char, 64> buffer = {};
    FUZZ_CHECK(ok(ragged_manager_planned_label(
        manager_.handle, in_.ConsumeIntegralInRange<std::size_t>(0, count - 1), buffer.data(),
        buffer.size(), nullptr)));
    return buffer.data();
  }

  void run_manager() {
    if (manager_.handle == nullptr && !in_.hostile) create_manager();
    const std::string name = label();
    const ragged_plan* plan = nullptr;
    ragged_plan_info info = {};
    info.struct_size = sizeof(info);
    if (ok(ragged_manager_plan_of(manager_.handle, name.c_str(), &plan))) {
      FUZZ_CHECK(ok(ragged_plan_get_info(plan, &info)));
    }
    const bool two_sources = manager_.kind == RAGGED_KIND_PREFIXED && in_.ConsumeBool();
    with_tensors(manager_.shape, info.total_tokens,
                 two_sources ? info.total_tokens : info.total_kv_tokens,
                 info.total_kv_tokens - info.total_tokens, two_sources,
                 [&](const ragged_run_arguments* arguments) {
                   ok(ragged_manager_run(manager_.handle, name.c_str(), arguments));
                 });
  }

  void ask_manager() {
    std::int64_t segments = 0;
    std::int32_t pending = 0;
    const ragged_plan* plan = nullptr;
    const std::string name = label();
    ok(ragged_manager_num_segments(manager_.handle, name.c_str(), &segments));
    ok(ragged_manager_preplan_pending(manager_.handle, &pending));
    ok(ragged_manager_plan_of(manager_.handle, name.c_str(), &plan));
    describe(plan);
    const Struct<ragged_config> c(in_, {});
    ok(ragged_manager_config(manager_.handle, c.get()));
  }

  void configure() {
    const Struct<ragged_config> c(in_, config(shape(in_)));
    std::int64_t count = 0;
    ok(ragged_config_validate(c.get()));
    ok(ragged_config_shard(c.get(), in_.ConsumeIntegralInRange<int>(-1, 4)));
    ok(ragged_config_max_segments_for(c.get(), in_.ConsumeIntegral<std::int64_t>(), &count));
    const std::string key =
        in_.PickValueInArray({"flashinfer_backend", "max_tokens_per_request", ""});
    const std::string value = in_.ConsumeRandomLengthString(8);
    ok(ragged_config_override(c.get(), key.c_str(), value.c_str()));
    text(in_, [&](char* buffer, std::size_t capacity, std::size_t* length) {
      return ragged_cross_label(value.c_str(), key.c_str(), buffer, capacity, length);
    });
  }

  In& in_;
  std::array<Wrapper, 3> wrappers_;
  Manager manager_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  In in(data, size);
  Session session(in);
  for (int i = 0; i < 40 && in.remaining_bytes() > 0; ++i) session.step();
  return 0;
}
