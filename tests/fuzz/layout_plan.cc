// Any offsets, problem, device and ceilings: layouts and plans are refused with ragged::Error, or
// hold what they promise. A layout's segments are those that were given; a plan's units cover every
// query row of every segment once.

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <ragged/plan.hpp>

#include "backends/contract.hpp"
#include "check.hpp"
#include "cut.hpp"

using namespace ragged;

namespace {

// An index tensor in memory of exactly its size.
class Index {
 public:
  Index(FuzzedDataProvider& in, const std::vector<std::int64_t>& values)
      : stride_(in.ConsumeIntegralInRange<std::int64_t>(1, 3)),
        type_(in.ConsumeBool() ? IndexType::int64 : IndexType::int32) {
    const std::size_t width = type_ == IndexType::int64 ? 8 : 4;
    const std::size_t stride = static_cast<std::size_t>(stride_);
    count_ = static_cast<std::int64_t>(values.size());
    bytes_ = std::make_unique<std::byte[]>(
        values.empty() ? 0 : ((values.size() - 1) * stride + 1) * width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      void* at = bytes_.get() + i * stride * width;
      if (type_ == IndexType::int64) {
        *static_cast<std::int64_t*>(at) = values[i];
      } else {
        *static_cast<std::int32_t*>(at) = static_cast<std::int32_t>(values[i]);
      }
    }
  }
  [[nodiscard]] IndexView view() const { return {bytes_.get(), type_, count_, stride_}; }

 private:
  std::int64_t stride_;
  IndexType type_;
  std::int64_t count_ = 0;
  std::unique_ptr<std::byte[]> bytes_;
};

// Small, hostile or far beyond any memory; between them a step is only large.
std::int64_t length(FuzzedDataProvider& in) {
  switch (in.ConsumeIntegralInRange<int>(0, 15)) {
    case 0:
      return -in.ConsumeIntegralInRange<std::int64_t>(1, 9);
    case 1:
      return in.ConsumeIntegralInRange<std::int64_t>(std::int64_t{1} << 50, INT64_MAX);
    case 2:
      return in.ConsumeIntegralInRange<std::int64_t>(0, 5000);
    default:
      return in.ConsumeIntegralInRange<std::int64_t>(0, 40);
  }
}

std::vector<std::int64_t> lengths(FuzzedDataProvider& in, std::size_t count) {
  std::vector<std::int64_t> result(count);
  for (auto& value : result) value = length(in);
  return result;
}

// Offsets of the lengths, wrapping where they leave 64 bits; at times one entry is spoilt.
std::vector<std::int64_t> offsets(FuzzedDataProvider& in, const std::vector<std::int64_t>& of) {
  std::vector<std::int64_t> result = {0};
  for (const std::int64_t value : of) {
    result.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(result.back()) +
                                               static_cast<std::uint64_t>(value)));
  }
  if (in.ConsumeIntegralInRange<int>(0, 7) == 0) {
    result[in.ConsumeIntegralInRange<std::size_t>(0, result.size() - 1)] = length(in);
  }
  return result;
}

void check_layout(const Layout& layout) {
  std::int64_t total = 0;
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < layout.num_segments(); ++i) {
    FUZZ_CHECK(layout.begin(i) >= 0);
    FUZZ_CHECK(layout.length(i) >= 0);
    FUZZ_CHECK(layout.length(i) == 0 || layout.end(i) <= layout.extent());
    total += layout.length(i);
    longest = std::max(longest, layout.length(i));
  }
  FUZZ_CHECK(total == layout.total_tokens());
  FUZZ_CHECK(longest == layout.max_length());
  FUZZ_CHECK(layout.has_gaps() || total == layout.extent());
}

// A layout of about `segments` segments. Throws ragged::Error as assign does; then it is as before.
Layout layout(FuzzedDataProvider& in, std::size_t segments) {
  Layout result;
  const std::vector<std::int64_t> given = lengths(in, segments);
  if (in.ConsumeBool()) {
    const Index index(in, offsets(in, given));
    result.assign_offsets(index.view(), "cu_seqlens");
    FUZZ_CHECK(result.same_offsets(index.view()));
    FUZZ_CHECK(result.num_segments() == static_cast<std::int64_t>(segments));
    for (std::int64_t i = 0; i < result.num_segments(); ++i) {
      FUZZ_CHECK(result.begin(i) == index.view().at(i));
      FUZZ_CHECK(result.end(i) == index.view().at(i + 1));
    }
  } else {
    std::vector<std::int64_t> starts = offsets(in, given);
    starts.pop_back();
    for (auto& start : starts) {
      if (start < INT64_MAX / 2) start += in.ConsumeIntegralInRange<int>(0, 2);
    }
    const Index s(in, starts), l(in, given);
    result.assign_spans({s.view(), l.view()}, "spans");
    FUZZ_CHECK(result.num_segments() == static_cast<std::int64_t>(segments));
    for (std::int64_t i = 0; i < result.num_segments(); ++i) {
      FUZZ_CHECK(result.length(i) == l.view().at(i));
      // Where a segment without rows lies says nothing.
      FUZZ_CHECK(result.length(i) == 0 || result.begin(i) == s.view().at(i));
    }
  }
  check_layout(result);
  return result;
}

Problem problem(FuzzedDataProvider& in) {
  Problem p;
  p.kind = in.PickValueInArray({AttentionKind::self, AttentionKind::cross,
                                AttentionKind::block_causal, AttentionKind::prefixed});
  p.num_kv_heads = in.ConsumeIntegralInRange<int>(-1, 4);
  p.num_qo_heads = p.num_kv_heads * in.ConsumeIntegralInRange<int>(0, 4);
  p.head_dim = in.ConsumeBool() ? 8 * in.ConsumeIntegralInRange<int>(1, 32)
                                : in.ConsumeIntegralInRange<int>(-8, 264);
  p.sm_scale = in.ConsumeBool() ? 0.125 : in.ConsumeFloatingPoint<double>();
  p.dtype = in.PickValueInArray({DType::bf16, DType::fp16, DType::fp32});
  const bool may = in.ConsumeIntegralInRange<int>(0, 9) == 0;
  p.causal = in.ConsumeBool() &&
             (may || p.kind == AttentionKind::self || p.kind == AttentionKind::prefixed);
  p.two_sources = in.ConsumeBool() && (may || p.kind == AttentionKind::prefixed);
  if (may || p.kind == AttentionKind::block_causal) {
    p.block_size = in.ConsumeBool() ? in.ConsumeIntegralInRange<std::int64_t>(1, 70)
                                    : in.ConsumeIntegral<std::int64_t>();
  }
  return p;
}

// Units of one segment in the order of the list need not be in the order of rows.
void check_units(const Plan& plan) {
  const std::int64_t segments = plan.layouts.q.num_segments();
  std::vector<std::vector<char>> covered(static_cast<std::size_t>(segments));
  for (std::int64_t i = 0; i < segments; ++i) {
    covered[static_cast<std::size_t>(i)].resize(static_cast<std::size_t>(plan.layouts.q.length(i)));
  }
  for (const WorkUnit& unit : plan.units) {
    FUZZ_CHECK(unit.segment >= 0 && unit.segment < segments);
    FUZZ_CHECK(unit.rows > 0);
    FUZZ_CHECK(unit.rule == tile_rule(plan.tiles, plan.layouts.q.length(unit.segment),
                                      plan.layouts.kv_length(unit.segment)));
    auto& rows = covered[static_cast<std::size_t>(unit.segment)];
    FUZZ_CHECK(unit.row_begin >= 0 &&
               unit.row_begin + unit.rows <= static_cast<std::int64_t>(rows.size()));
    for (std::int64_t r = unit.row_begin; r < unit.row_begin + unit.rows; ++r) {
      FUZZ_CHECK(!rows[static_cast<std::size_t>(r)]);
      rows[static_cast<std::size_t>(r)] = 1;
    }
  }
  for (const auto& rows : covered) {
    for (const char row : rows) FUZZ_CHECK(row == 1);
  }
}

bool small(const Layout& l) { return l.total_tokens() < 200'000; }
// Refused, or of no unit at all: its list would not fit any memory.
bool beyond_memory(const Layout& l) { return l.total_tokens() >= std::int64_t{1} << 50; }

void plan_once(FuzzedDataProvider& in, Plan& plan) {
  const Problem p = problem(in);
  const std::size_t segments = in.ConsumeIntegralInRange<std::size_t>(0, 12);
  const bool mismatched = in.ConsumeIntegralInRange<int>(0, 9) == 0;
  StepLayouts layouts;
  layouts.q = layout(in, segments);
  layouts.kv_is_q = p.kind == AttentionKind::self || p.kind == AttentionKind::block_causal ||
                    (p.two_sources && in.ConsumeBool()) || mismatched;
  if (!layouts.kv_is_q) layouts.kv = layout(in, segments);
  if (p.two_sources || mismatched) layouts.prefix = layout(in, mismatched ? 3 : segments);
  if (!small(layouts.q) && !beyond_memory(layouts.q)) return;

  const DeviceFacts device = DeviceFacts::parse(
      in.PickValueInArray({"cpu", "cpu:avx2", "cpu:avx2:8", "cpu:avx512", "cpu:neon", "h200"}));
  std::optional<Ceilings> ceilings;
  if (in.ConsumeBool()) {
    ceilings = Ceilings{length(in), length(in), length(in)};
    // A list is reserved for its ceilings.
    if (ceilings->max_total_tokens > 200'000 && ceilings->max_total_tokens < std::int64_t{1}
                                                                                 << 50) {
      return;
    }
  }
  const auto pinned = in.PickValueInArray({RaggedAttnBackend::AUTO, RaggedAttnBackend::REFERENCE,
                                           RaggedAttnBackend::CPU, RaggedAttnBackend::SM90});
  const Plan before = plan;
  try {
    make_plan(plan, p, layouts, device, built_backends(), pinned, ceilings);
  } catch (const Error& error) {
    FUZZ_CHECK(error.code() != ErrorCode::internal);
    FUZZ_CHECK(error.what()[0] != '\0');
    FUZZ_CHECK(plan == before);
    return;
  }
  check_units(plan);
  FUZZ_CHECK(plan.backend != nullptr && plan.backend_name == plan.backend->name());
  // A step of a real size; the reference keeps the scores of a row.
  if (small(layouts.keys()) && small(layouts.prefix) && !ceilings) {
    FUZZ_CHECK(plan.workspace_bytes <= std::size_t{64} << 20);
  }
  const Waste waste = plan.waste();
  FUZZ_CHECK(waste.rows_computed >= waste.rows_useful);
  FUZZ_CHECK(plan.flops() >= 0 && plan.bytes() >= 0);
  FUZZ_CHECK(!plan.explain().empty());
  FUZZ_CHECK(plan.to_json(true).front() == '{');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider in(data, size);
  Plan plan;  // one storage for every step of the input
  for (int step = 0; step < 4 && in.remaining_bytes() > 0; ++step) {
    try {
      plan_once(in, plan);
    } catch (const Error& error) {  // of a layout
      FUZZ_CHECK(error.code() == ErrorCode::invalid_argument ||
                 error.code() == ErrorCode::out_of_memory);
    }
  }
  return 0;
}
