#include "backends/reference/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "numbers.hpp"

namespace ragged {
namespace {

// Row `row` of head `head`, widened to double.
using Row = std::array<double, 256>;
void load_row(const TensorView& tensor, std::int64_t row, std::int64_t head, Row& out) noexcept {
  const char* data = static_cast<const char*>(tensor.row(row, head));
  const std::int64_t size = size_bytes(tensor.dtype);
  for (std::int64_t d = 0; d < tensor.shape[2]; ++d) {
    out[static_cast<std::size_t>(d)] = load_element(data + d * size, tensor.dtype);
  }
}

// The keys (or values) of one segment: `prefix_length` rows of one tensor, then rows of another.
struct Keys {
  const TensorView& prefix;
  std::int64_t prefix_begin;
  std::int64_t prefix_length;
  const TensorView& fresh;
  std::int64_t fresh_begin;

  void load(std::int64_t key, std::int64_t head, Row& out) const noexcept {
    if (key < prefix_length) {
      load_row(prefix, prefix_begin + key, head, out);
    } else {
      load_row(fresh, fresh_begin + key - prefix_length, head, out);
    }
  }
};

// softmax(sm_scale * q k^T) v over keys [begin, end), into `out`; returns the log-sum-exp.
// `weights` has room for one double each.
double attend(const Row& q, const Keys& k, const Keys& v, std::int64_t head, std::int64_t begin,
              std::int64_t end, const Problem& problem, double* weights, Row& out) {
  out.fill(0.0);
  if (begin >= end) return -std::numeric_limits<double>::infinity();
  const auto head_dim = static_cast<std::size_t>(problem.head_dim);
  Row row;
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t key = begin; key < end; ++key) {
    k.load(key, head, row);
    double dot = 0.0;
    for (std::size_t d = 0; d < head_dim; ++d) dot += q[d] * row[d];
    weights[key - begin] = problem.sm_scale * dot;
    largest = std::max(largest, weights[key - begin]);
  }
  // Scores of -inf alone weigh nothing, as hidden keys do.
  const double base = std::isinf(largest) && largest < 0.0 ? 0.0 : largest;
  double sum = 0.0;
  for (std::int64_t key = begin; key < end; ++key) {
    double& weight = weights[key - begin];
    weight = std::exp(weight - base);
    sum += weight;
    v.load(key, head, row);
    for (std::size_t d = 0; d < head_dim; ++d) out[d] += weight * row[d];
  }
  if (sum == 0.0) return -std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < head_dim; ++d) out[d] /= sum;
  return base + std::log(sum);
}

void run_unit(const Plan& plan, const RunArguments& arguments, const WorkUnit& unit) {
  const Problem& problem = plan.problem;
  const StepLayouts& layouts = plan.layouts;
  const std::int64_t segment = unit.segment;
  const std::int64_t q_len = layouts.q.length(segment);
  const std::int64_t kv_len = layouts.kv_length(segment);
  const std::int64_t prefix_begin = problem.two_sources ? layouts.prefix.begin(segment) : 0;
  const std::int64_t prefix_length = problem.two_sources ? layouts.prefix.length(segment) : 0;
  const std::int64_t fresh_begin = layouts.keys().begin(segment);
  const Keys k{arguments.prefix_k, prefix_begin, prefix_length, arguments.k, fresh_begin};
  const Keys v{arguments.prefix_v, prefix_begin, prefix_length, arguments.v, fresh_begin};
  const Mask mask = mask_of(problem);
  Row q;
  Row out;
  for (std::int64_t row = unit.row_begin; row < unit.row_begin + unit.rows; ++row) {
    const std::int64_t token = layouts.q.begin(segment) + row;
    for (std::int64_t head = 0; head < problem.num_qo_heads; ++head) {
      load_row(arguments.q, token, head, q);
      const double lse =
          attend(q, k, v, head / problem.group(), visible_begin(mask, row, q_len, kv_len),
                 visible_end(mask, row, q_len, kv_len), problem,
                 static_cast<double*>(arguments.workspace.data), out);
      char* to = static_cast<char*>(arguments.out.row(token, head));
      const std::int64_t size = size_bytes(problem.dtype);
      for (std::int64_t d = 0; d < problem.head_dim; ++d) {
        store_element(to + d * size, problem.dtype,
                      static_cast<float>(out[static_cast<std::size_t>(d)]));
      }
      if (arguments.lse.data != nullptr) {
        arguments.lse.data[token * arguments.lse.strides[0] + head * arguments.lse.strides[1]] =
            static_cast<float>(lse);
      }
    }
  }
}

class Reference final : public Backend {
 public:
  [[nodiscard]] RaggedAttnBackend id() const noexcept override {
    return RaggedAttnBackend::REFERENCE;
  }

  [[nodiscard]] std::string declines(const Problem&, const DeviceFacts& device) const override {
    if (device.device.kind == DeviceKind::cpu) return {};
    return "device must be cpu; got " + device.to_string();
  }

  // One weight for each key of the longest segment.
  [[nodiscard]] Tuning tune(const Problem& problem, const DeviceFacts&,
                            const StepTotals& totals) const override {
    Tuning tuning;
    tuning.tiles.num_rules = 1;
    tuning.tiles.rules[0].tile = {.unit_rows = 64, .heads = problem.group()};
    tuning.workspace_bytes = static_cast<std::size_t>(totals.max_kv_length) * sizeof(double);
    return tuning;
  }

  void run(const Plan& plan, const RunArguments& arguments) const override {
    for (const WorkUnit& unit : plan.units) run_unit(plan, arguments, unit);
  }
};

}  // namespace

const Backend& reference_backend() noexcept {
  static const Reference backend;
  return backend;
}

}  // namespace ragged
