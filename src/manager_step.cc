#include "manager_step.hpp"

#include <algorithm>
#include <limits>

namespace ragged::detail {
namespace {

// Two labels together stay inside 64 bits.
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int64_t>::max() / 2;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

// Appends rather than adds: GCC 12 sees an overlap in "'" + std::string that is not there.
std::string quoted(std::string_view text) {
  std::string result = "'";
  result += text;
  result += '\'';
  return result;
}
std::string argument_of(std::string_view label) { return "label " + quoted(label); }

std::string span_name(std::size_t segment) {
  return "segments[" + std::to_string(segment) + "].span";
}

// The segments of one label, in declared order.
struct LabelSegments {
  std::string_view label;
  std::vector<const Segment*> segments;
  std::vector<std::int64_t> cu_seqlens = {0};
};

// `with_segments` fills LabelSegments::segments, which pairs alone look at.
std::vector<LabelSegments> by_label(std::span<const Segment> segments, bool with_segments) {
  std::vector<LabelSegments> labels;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    auto entry = std::find_if(labels.begin(), labels.end(), [&](const LabelSegments& known) {
      return known.label == segment.label;
    });
    if (entry == labels.end()) {
      labels.push_back({.label = segment.label, .segments = {}});
      entry = labels.end() - 1;
      // Most steps have one label.
      entry->cu_seqlens.reserve(segments.size() - i + 1);
    }
    if (segment.span < 0) {
      refuse(span_name(i) + " must be at least 0; got " + std::to_string(segment.span));
    }
    if (segment.span > kMaxTokens - entry->cu_seqlens.back()) {
      refuse(span_name(i) + " = " + std::to_string(segment.span) + " takes " +
             argument_of(segment.label) + " beyond " + std::to_string(kMaxTokens) + " tokens");
    }
    if (with_segments) entry->segments.push_back(&segment);
    entry->cu_seqlens.push_back(entry->cu_seqlens.back() + segment.span);
  }
  return labels;
}

const LabelSegments& declared(const std::vector<LabelSegments>& labels, std::string_view label,
                              std::size_t pair) {
  std::string known;
  for (const LabelSegments& entry : labels) {
    if (entry.label == label) return entry;
    known += (known.empty() ? "" : ", ") + quoted(entry.label);
  }
  refuse("pairs[" + std::to_string(pair) + "] names " + argument_of(label) +
         ", which no segment declares; declared: " + (known.empty() ? "none" : known));
}

void check_same_requests(const LabelSegments& q, const LabelSegments& kv, std::size_t pair) {
  const auto differ = [&](const std::string& how) {
    refuse("pairs[" + std::to_string(pair) + "]: " + argument_of(q.label) + " and " +
           argument_of(kv.label) + " must list the same requests in the same order; " + how);
  };
  const std::size_t common = std::min(q.segments.size(), kv.segments.size());
  for (std::size_t i = 0; i < common; ++i) {
    const std::string& q_request = q.segments[i]->request_id;
    const std::string& kv_request = kv.segments[i]->request_id;
    if (q_request == kv_request) continue;
    differ("segment " + std::to_string(i) + " is of request " + quoted(q_request) +
           " in the first, of " + quoted(kv_request) + " in the second");
  }
  if (q.segments.size() != kv.segments.size()) {
    differ("the first has " + std::to_string(q.segments.size()) + " segments, the second " +
           std::to_string(kv.segments.size()));
  }
}

// Calls add(q, kv, plan) for every distinct pair. A pair declared twice is one plan.
template <typename Add>
void for_pairs(std::span<const Segment> segments, std::span<const LabelPair> pairs,
               StepLayout& step, Add&& add) {
  if (pairs.empty() && !segments.empty()) {
    refuse(
        "pairs must name at least one pair of labels, for a step without would plan nothing; "
        "got none beside " +
        std::to_string(segments.size()) + " segments");
  }
  const std::vector<LabelSegments> labels = by_label(segments, true);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::string label = cross_label(pairs[i].first, pairs[i].second);
    const auto begin = pairs.begin();
    const auto same_label =
        std::find_if(begin, begin + static_cast<std::ptrdiff_t>(i), [&](const LabelPair& earlier) {
          return cross_label(earlier.first, earlier.second) == label;
        });
    if (same_label != begin + static_cast<std::ptrdiff_t>(i)) {
      if (*same_label == pairs[i]) continue;
      refuse("pairs[" + std::to_string(i) + "] and pairs[" + std::to_string(same_label - begin) +
             "] are different pairs under one label, " + quoted(label));
    }
    const LabelSegments& q = declared(labels, pairs[i].first, i);
    const LabelSegments& kv = declared(labels, pairs[i].second, i);
    check_same_requests(q, kv, i);
    LabelPlan plan;
    plan.label = label;
    plan.q_argument = argument_of(q.label);
    plan.kv_argument = argument_of(kv.label);
    plan.q = q.cu_seqlens;
    add(q, kv, plan);
    step.plans.push_back(std::move(plan));
  }
}

std::string differing_plans(const StepLayout& step, const StepLayout& other,
                            std::string_view other_name, std::string_view step_name) {
  for (const LabelPlan& plan : step.plans) {
    const auto twin =
        std::find_if(other.plans.begin(), other.plans.end(),
                     [&](const LabelPlan& candidate) { return candidate.label == plan.label; });
    if (twin == other.plans.end()) {
      return argument_of(plan.label) + " is in " + std::string(step_name) + ", not in " +
             std::string(other_name);
    }
    if (!plan.same_layout(*twin)) return argument_of(plan.label) + " has other spans";
  }
  return {};
}

std::string differing_flag(std::string_view flag, bool step, bool other) {
  if (step == other) return {};
  return std::string(flag) + " is " + (step ? "true" : "false") + ", was " +
         (other ? "true" : "false");
}

}  // namespace

std::string first_difference(const StepLayout& step, const StepLayout& other) {
  std::string difference = differing_flag("causal", step.causal, other.causal);
  if (difference.empty()) {
    difference = differing_flag("two_sources", step.two_sources, other.two_sources);
  }
  if (difference.empty()) {
    difference = differing_plans(step, other, "the other step", "this step");
  }
  if (difference.empty()) {
    difference = differing_plans(other, step, "this step", "the other step");
  }
  return difference;
}

StepLayout layout_of_labels(std::span<const Segment> segments, bool causal) {
  StepLayout step;
  step.causal = causal;
  for (LabelSegments& entry : by_label(segments, false)) {
    LabelPlan plan;
    plan.label = entry.label;
    plan.q_argument = argument_of(entry.label);
    plan.q = std::move(entry.cu_seqlens);
    step.plans.push_back(std::move(plan));
  }
  return step;
}

StepLayout layout_of_cross(std::span<const Segment> segments, std::span<const LabelPair> pairs) {
  StepLayout step;
  for_pairs(segments, pairs, step,
            [](const LabelSegments& /*q*/, const LabelSegments& kv, LabelPlan& plan) {
              plan.kv = kv.cu_seqlens;
            });
  return step;
}

StepLayout layout_of_prefixed(std::span<const Segment> segments, std::span<const LabelPair> pairs,
                              bool causal, bool two_sources) {
  StepLayout step;
  step.causal = causal;
  step.two_sources = two_sources;
  for_pairs(segments, pairs, step,
            [&](const LabelSegments& q, const LabelSegments& prefix, LabelPlan& plan) {
              if (two_sources) {
                plan.prefix = prefix.cu_seqlens;
                return;
              }
              plan.kv_argument = "keys of " + argument_of(plan.label);
              plan.kv = prefix.cu_seqlens;
              for (std::size_t i = 0; i < plan.kv.size(); ++i) plan.kv[i] += q.cu_seqlens[i];
            });
  return step;
}

}  // namespace ragged::detail
