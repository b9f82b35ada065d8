#include "file_case.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>

#include "options.hpp"
#include "safetensors.hpp"

namespace ragged::tools {
namespace {

using safetensors::Archive;
using safetensors::ElementType;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

// The file's tensors, with errors that name the file and the tensor.
class Source {
 public:
  Source(std::string path, const Archive& archive) : path_(std::move(path)), archive_(archive) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, path_ + ": " + what);
  }
  [[nodiscard]] bool has(std::string_view name) const { return archive_.find(name) != nullptr; }

  // [tokens, heads, head_dim] in the type that it is stored in.
  [[nodiscard]] Tensor tensor(const char* name) const {
    const safetensors::Tensor& from = need(name, 3, "[tokens, heads, head_dim]");
    Tensor to(dtype_of(from), from.shape[0], from.shape[1], from.shape[2]);
    std::memcpy(to.bytes().data(), from.data.data(), from.data.size());
    return to;
  }

  // Offsets as 64-bit; the layout checks their values.
  [[nodiscard]] std::vector<std::int64_t> offsets(const char* name) const {
    const safetensors::Tensor& from = need(name, 1, "[segments + 1]");
    if (from.type != ElementType::i32 && from.type != ElementType::i64) {
      refuse(std::string(name) + ": expected I32 or I64, got " + std::string(to_string(from.type)));
    }
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < from.elements(); ++i) {
      if (from.type == ElementType::i32) {
        std::int32_t value = 0;
        std::memcpy(&value, from.data.data() + 4 * i, 4);
        values.push_back(value);
      } else {
        std::int64_t value = 0;
        std::memcpy(&value, from.data.data() + 8 * i, 8);
        values.push_back(value);
      }
    }
    return values;
  }

  // A right answer: fp32 or wider than it needs to be, of exactly this shape.
  [[nodiscard]] std::vector<float> answer(const char* name,
                                          const std::vector<std::int64_t>& shape) const {
    const safetensors::Tensor& from = need(name, shape.size(), shape_text(shape).c_str());
    if (from.shape != shape) {
      refuse(std::string(name) + ": expected " + shape_text(shape) + ", got " +
             shape_text(from.shape));
    }
    if (from.type != ElementType::f32) {
      refuse(std::string(name) + ": expected F32, got " + std::string(to_string(from.type)));
    }
    std::vector<float> values(static_cast<std::size_t>(from.elements()));
    if (!values.empty()) std::memcpy(values.data(), from.data.data(), from.data.size());
    return values;
  }

  [[nodiscard]] std::optional<std::string> metadata(const char* key) const {
    const auto it = archive_.metadata.find(key);
    if (it == archive_.metadata.end()) return std::nullopt;
    return it->second;
  }

 private:
  [[nodiscard]] const safetensors::Tensor& need(const char* name, std::size_t rank,
                                                const char* shape) const {
    const safetensors::Tensor* tensor = archive_.find(name);
    if (tensor == nullptr) refuse(std::string(name) + ": expected a tensor, got none");
    if (tensor->shape.size() != rank) {
      refuse(std::string(name) + ": expected " + shape + ", got " + shape_text(tensor->shape));
    }
    // An empty tensor may claim any extents; what is computed with them must fit 64 bits.
    for (const std::int64_t extent : tensor->shape) {
      if (extent > (std::int64_t{1} << 40)) {
        refuse(std::string(name) + ": expected extents up to 2^40, got " +
               shape_text(tensor->shape));
      }
    }
    return *tensor;
  }
  [[nodiscard]] DType dtype_of(const safetensors::Tensor& tensor) const {
    if (tensor.type == ElementType::bf16) return DType::bf16;
    if (tensor.type == ElementType::f16) return DType::fp16;
    if (tensor.type == ElementType::f32) return DType::fp32;
    refuse(tensor.name + ": expected BF16, F16 or F32, got " + std::string(to_string(tensor.type)));
  }

  std::string path_;
  const Archive& archive_;
};

bool read_causal(const Source& source) {
  const std::string text = source.metadata("causal").value_or("0");
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  source.refuse("metadata causal: expected 0 or 1, got '" + text.substr(0, 60) + "'");
}

// The file's lengths; checks the offsets and that the last fits the rows.
std::vector<std::int64_t> read_lengths(const Source& source, const char* name, std::int64_t rows) {
  const std::vector<std::int64_t> offsets = source.offsets(name);
  Layout layout;
  try {
    layout.assign_offsets(IndexView(offsets), name);
  } catch (const Error& error) {
    source.refuse(error.what());
  }
  if (layout.extent() != rows) {
    source.refuse(std::string(name) + ": expected the last offset to be the " +
                  std::to_string(rows) + " rows of its tensor, got " +
                  std::to_string(layout.extent()));
  }
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < layout.num_segments(); ++i) lengths.push_back(layout.length(i));
  return lengths;
}

void same_segments(const Source& source, const char* name, const std::vector<std::int64_t>& lengths,
                   const char* q_name, const std::vector<std::int64_t>& q_lengths) {
  if (lengths.size() == q_lengths.size()) return;
  source.refuse(std::string(name) + ": expected the " + std::to_string(q_lengths.size()) +
                " segments of " + q_name + ", got " + std::to_string(lengths.size()));
}

Case describe_case(const Source& source, const Inputs& in, const CaseOptions& options) {
  Case c;
  Problem& p = c.problem;
  p.num_qo_heads = static_cast<int>(in.q.heads());
  p.num_kv_heads = static_cast<int>(in.k.heads());
  p.head_dim = static_cast<int>(in.q.head_dim());
  p.dtype = in.q.dtype();
  p.causal = read_causal(source) || options.causal;
  p.sm_scale = 1.0 / std::sqrt(static_cast<double>(std::max(p.head_dim, 1)));
  if (const auto text = source.metadata("sm_scale")) {
    p.sm_scale = parse_number("metadata sm_scale", *text);
  }
  if (const auto text = source.metadata("block_size")) {
    p.block_size = parse_integer("metadata block_size", *text, 1);
  }
  if (options.block_size) p.block_size = *options.block_size;

  if (source.has("cu_seqlens")) {
    if (source.has("q_cu_seqlens") || source.has("kv_cu_seqlens")) {
      source.refuse("expected cu_seqlens, or q_cu_seqlens and kv_cu_seqlens, got both");
    }
    p.kind = p.block_size > 0 ? AttentionKind::block_causal : AttentionKind::self;
    c.q_lengths = read_lengths(source, "cu_seqlens", in.q.tokens());
    if (source.has("prefix_cu_seqlens")) {
      if (p.block_size > 0) {
        source.refuse("block_size: expected it without a prefix, got prefix_cu_seqlens");
      }
      p.kind = AttentionKind::prefixed;
      p.two_sources = true;
      c.prefix_lengths = read_lengths(source, "prefix_cu_seqlens", in.prefix_k.tokens());
      same_segments(source, "prefix_cu_seqlens", c.prefix_lengths, "cu_seqlens", c.q_lengths);
    }
    if (in.k.tokens() != in.q.tokens()) {
      source.refuse("k: expected the " + std::to_string(in.q.tokens()) + " rows of q, got " +
                    std::to_string(in.k.tokens()));
    }
  } else {
    if (p.block_size > 0) {
      source.refuse("block_size: expected it with cu_seqlens, got q_cu_seqlens");
    }
    p.kind = p.causal ? AttentionKind::prefixed : AttentionKind::cross;
    c.q_lengths = read_lengths(source, "q_cu_seqlens", in.q.tokens());
    c.kv_lengths = read_lengths(source, "kv_cu_seqlens", in.k.tokens());
    same_segments(source, "kv_cu_seqlens", c.kv_lengths, "q_cu_seqlens", c.q_lengths);
  }
  return c;
}

std::string text_of(const Tensor& t) { return shape_text({t.tokens(), t.heads(), t.head_dim()}); }

// Keys and values of one source, which go with q.
void read_keys(const Source& source, const Tensor& q, const char* k_name, const char* v_name,
               Tensor& k, Tensor& v) {
  k = source.tensor(k_name);
  v = source.tensor(v_name);
  if (v.tokens() != k.tokens() || v.heads() != k.heads() || v.head_dim() != k.head_dim()) {
    source.refuse(std::string(v_name) + ": expected the shape of " + k_name + " " + text_of(k) +
                  ", got " + text_of(v));
  }
  if (k.head_dim() != q.head_dim()) {
    source.refuse(std::string(k_name) + ": expected the head_dim of q " +
                  std::to_string(q.head_dim()) + ", got " + std::to_string(k.head_dim()));
  }
  for (const Tensor* other : {&k, &v}) {
    if (other->dtype() != q.dtype()) {
      source.refuse(std::string(other == &k ? k_name : v_name) + ": expected the dtype of q " +
                    std::string(to_string(q.dtype())) + ", got " +
                    std::string(to_string(other->dtype())));
    }
  }
}

Inputs read_inputs(const Source& source) {
  Inputs in;
  in.q = source.tensor("q");
  read_keys(source, in.q, "k", "v", in.k, in.v);
  bool prefixed = false;
  for (const char* name : {"prefix_k", "prefix_v", "prefix_cu_seqlens"}) {
    prefixed = prefixed || source.has(name);
  }
  if (prefixed) {
    if (!source.has("prefix_cu_seqlens") || !source.has("cu_seqlens")) {
      source.refuse("prefix_k: expected prefix_cu_seqlens and cu_seqlens with it, got " +
                    std::string(source.has("cu_seqlens") ? "cu_seqlens" : "no cu_seqlens"));
    }
    read_keys(source, in.q, "prefix_k", "prefix_v", in.prefix_k, in.prefix_v);
    if (in.prefix_k.heads() != in.k.heads()) {
      source.refuse("prefix_k: expected the " + std::to_string(in.k.heads()) + " heads of k, got " +
                    std::to_string(in.prefix_k.heads()));
    }
  }
  if (in.q.heads() > 65535 || in.k.heads() > 65535 || in.q.head_dim() > 65535) {
    source.refuse("q: expected at most 65535 heads and columns, got " + text_of(in.q));
  }
  return in;
}

Tensor converted(const Tensor& from, DType dtype) {
  Tensor to(dtype, from.tokens(), from.heads(), from.head_dim());
  for (std::int64_t i = 0; i < from.elements(); ++i) to.set(i, from.at(i));
  return to;
}

void refuse_options(const CaseOptions& o) {
  const auto refuse = [](const char* option, const char* instead) {
    throw Error(ErrorCode::invalid_argument,
                std::string(option) + ": expected " + instead +
                    ", got it together with --input, which has its own");
  };
  if (o.lengths) refuse("--lengths", "it without a file");
  if (o.kv_lengths) refuse("--kv-lengths", "it without a file");
  if (o.prefix_lengths) refuse("--prefix-lengths", "it without a file");
  if (o.workload) refuse("--workload", "it without a file");
  if (o.num_qo_heads) refuse("--heads", "it without a file");
  if (o.num_kv_heads) refuse("--kv-heads", "it without a file");
  if (o.head_dim) refuse("--head-dim", "it without a file");
  if (o.two_sources) refuse("--two-sources", "it without a file");
}

}  // namespace

FileCase read_case(const std::string& path, const CaseOptions& options) {
  refuse_options(options);
  const safetensors::File file(path);
  const Source source(path, file.archive());
  FileCase result;
  result.inputs = read_inputs(source);
  result.c = describe_case(source, result.inputs, {});
  const Problem stored = result.c.problem;
  if (options.causal || options.block_size) {
    result.c = describe_case(source, result.inputs, options);
  }
  result.c.name = std::filesystem::path(path).stem().string();
  try {
    override_problem(result.c.problem, options);
  } catch (const Error& error) {
    source.refuse(error.what());
  }

  // The same scale to a few roundings is the same question.
  if (std::abs(result.c.problem.sm_scale - stored.sm_scale) <= 1e-12 * std::abs(stored.sm_scale)) {
    result.c.problem.sm_scale = stored.sm_scale;
  }
  if (source.has("out") && result.c.problem == stored) {
    const Tensor& q = result.inputs.q;
    Expected expected;
    expected.rows = choose_rows(result.c, {CheckRows::Kind::all, 0}, 0);
    expected.out = source.answer("out", {q.tokens(), q.heads(), q.head_dim()});
    if (source.has("lse")) expected.lse = source.answer("lse", {q.tokens(), q.heads()});
    result.expected = std::move(expected);
  }
  if (result.c.problem.dtype != result.inputs.q.dtype()) {
    Inputs& in = result.inputs;
    for (Tensor* tensor : {&in.q, &in.k, &in.v, &in.prefix_k, &in.prefix_v}) {
      *tensor = converted(*tensor, result.c.problem.dtype);
    }
  }
  return result;
}

}  // namespace ragged::tools
