#include "steps.hpp"

#include <nanobind/stl/string.h>

#include "errors.hpp"

namespace ragged::python {
namespace {

// object.name as a T. Throws WrongType naming what holds it, what was expected and what came.
template <typename T>
T read(nb::handle object, const char* name, const char* expected) {
  const nb::object value = nb::getattr(object, name, nb::none());
  T result{};
  if (!nb::try_cast(value, result)) {
    throw WrongType(type_text(object) + "." + name + " must be " + expected + "; got " +
                    nb::repr(value).c_str());
  }
  return result;
}

std::string read_text(nb::handle object, const char* name) {
  return read<std::string>(object, name, "a string");
}

// Request ids of engines are strings or integers; only their equality counts.
std::string read_request(nb::handle segment) {
  const nb::object value = nb::getattr(segment, "request_id", nb::none());
  if (value.is_none()) {
    throw WrongType(type_text(segment) + ".request_id must be a string; got None");
  }
  return nb::str(value).c_str();
}

template <typename T>
T read_count(nb::handle object, const char* name) {
  return read<T>(object, name, "a whole number");
}

template <typename T>
std::optional<T> read_optional(nb::handle object, const char* name, const char* expected) {
  if (nb::getattr(object, name, nb::none()).is_none()) return std::nullopt;
  return read<T>(object, name, expected);
}

bool read_flag(nb::handle object, const char* name) {
  const nb::object value = nb::getattr(object, name, nb::none());
  return !value.is_none() && read<bool>(object, name, "True or False");
}

nb::object sequence(nb::handle object, const char* name) {
  const nb::object value = nb::getattr(object, name, nb::none());
  if (!value.is_none() && PySequence_Check(value.ptr()) == 0) {
    throw WrongType(type_text(object) + "." + name + " must be a sequence; got " +
                    type_text(value));
  }
  return value;
}

std::vector<Segment> segments_of(nb::handle list) {
  std::vector<Segment> segments;
  segments.reserve(nb::len(list));
  for (const nb::handle entry : nb::borrow(list)) {
    segments.push_back(
        {read_request(entry), read_text(entry, "label"), read_count<std::int64_t>(entry, "span")});
  }
  return segments;
}

SegmentList read_segments(nb::handle step) {
  const nb::object list = sequence(step, "segments");
  if (list.is_none()) return std::nullopt;
  return segments_of(list);
}

std::vector<LabelPair> read_pairs(nb::handle step) {
  std::vector<LabelPair> pairs;
  const nb::object list = sequence(step, "pairs");
  if (list.is_none()) return pairs;
  for (const nb::handle entry : list) {
    std::string first, second;
    const bool two = PySequence_Check(entry.ptr()) != 0 && nb::len(entry) == 2;
    if (!two || !nb::try_cast(entry[0], first) || !nb::try_cast(entry[1], second)) {
      throw WrongType("pairs[" + std::to_string(pairs.size()) + "] must be two labels; got " +
                      nb::repr(entry).c_str());
    }
    pairs.emplace_back(std::move(first), std::move(second));
  }
  return pairs;
}

std::string read_text_or(nb::handle object, const char* name, const char* otherwise) {
  if (nb::getattr(object, name, nb::none()).is_none()) return otherwise;
  return nb::str(nb::getattr(object, name)).c_str();
}

RaggedAttentionConfig config_of(nb::handle config, nb::handle dtype) {
  RaggedAttentionConfig result;
  result.num_qo_heads = read_count<int>(config, "num_qo_heads");
  result.num_kv_heads = read_count<int>(config, "num_kv_heads");
  result.head_dim = read_count<int>(config, "head_dim");
  result.sm_scale = read_optional<double>(config, "sm_scale", "a number or None");
  result.max_segments_per_request = read_count<std::int64_t>(config, "max_segments_per_request");
  result.max_tokens_per_request =
      read_optional<std::int64_t>(config, "max_tokens_per_request", "a whole number or None");
  const nb::object backend = nb::getattr(config, "backend", nb::none());
  if (!backend.is_none()) {
    result.backend = parse_backend(nb::str(nb::getattr(backend, "value", backend)).c_str());
  }
  result.flashinfer_backend = read_text_or(config, "flashinfer_backend", "auto");
  if (!dtype.is_none()) result.dtype = parse_dtype(nb::str(dtype).c_str());
  const nb::object unsharded = nb::getattr(config, "_unsharded", nb::none());
  if (!unsharded.is_none()) {
    result.unsharded = {nb::cast<int>(unsharded[0]), nb::cast<int>(unsharded[1])};
  }
  return result;
}

}  // namespace

AnyStep step_of(nb::handle step) {
  SegmentList segments = read_segments(step);
  if (nb::hasattr(step, "two_sources")) {
    return RaggedPrefixedAttentionStep{std::move(segments), read_pairs(step),
                                       read_flag(step, "causal"), read_flag(step, "two_sources")};
  }
  if (nb::hasattr(step, "pairs")) {
    return RaggedCrossAttentionStep{std::move(segments), read_pairs(step)};
  }
  if (nb::hasattr(step, "causal")) {
    return AttentionStep{std::move(segments), read_flag(step, "causal")};
  }
  throw WrongType(
      "step must be an AttentionStep, RaggedCrossAttentionStep or RaggedPrefixedAttentionStep; "
      "got " +
      type_text(step));
}

HeldContext::HeldContext(nb::handle context) {
  if (context.is_none()) return;
  const nb::object segments = sequence(context, "inherited_segments");
  if (!segments.is_none()) inherited = segments_of(segments);
  if (!nb::getattr(context, "slot", nb::none()).is_none()) {
    slot = read_count<int>(context, "slot");
  }
  const nb::object given = nb::getattr(context, "lease", nb::none());
  if (given.is_none()) return;
  const nb::object bucket = nb::getattr(given, "bucket", nb::none());
  lease = SlotLease{
      read_count<int>(given, "slot"),
      {read_text_or(bucket, "graph_walk", ""), read_count<std::int64_t>(bucket, "bs"),
       read_count<std::int64_t>(bucket, "num_tokens"), read_text_or(bucket, "extra", "")}};
}

AnyRaggedSpec spec_of(AttentionKind kind, nb::handle spec, nb::handle dtype) {
  std::string key = read_text(spec, "resource_key");
  std::set<std::string> nodes;  // the engine's; the manager does not look at them
  const RaggedAttentionConfig config = config_of(spec.attr("config"), dtype);
  switch (kind) {
    case AttentionKind::self:
      return RaggedAttentionSpec{std::move(key), std::move(nodes), config};
    case AttentionKind::cross:
      return RaggedCrossAttentionSpec{std::move(key), std::move(nodes), config};
    case AttentionKind::block_causal:
      return RaggedBlockCausalAttentionSpec{std::move(key), std::move(nodes), config,
                                            read_count<std::int64_t>(spec, "block_size")};
    case AttentionKind::prefixed:
      return RaggedPrefixedAttentionSpec{std::move(key), std::move(nodes), config};
  }
  throw Error(ErrorCode::internal, "kind is none of the four");
}

}  // namespace ragged::python
