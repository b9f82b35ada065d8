#pragma once

// A declared step as the list of plans that it asks for. Pure functions over plain values; they
// hold every rule of how labels and pairs become layouts.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ragged/declare.hpp>

namespace ragged::detail {

// One plan: of a label (self, block-causal), or of a pair under its cross_label.
struct LabelPlan {
  std::string label;
  std::string q_argument;            // what refusals call the queries: "label 'main'"
  std::string kv_argument;           // and the keys, or the prefix with two sources
  std::vector<std::int64_t> q;       // cu_seqlens
  std::vector<std::int64_t> kv;      // cu_seqlens; empty: the keys are laid out as the queries
  std::vector<std::int64_t> prefix;  // cu_seqlens; two sources only
  [[nodiscard]] bool same_layout(const LabelPlan& other) const noexcept {
    return label == other.label && q == other.q && kv == other.kv && prefix == other.prefix;
  }
};

struct StepLayout {
  std::vector<LabelPlan> plans;  // labels in order of first declaration, pairs as declared
  bool causal = false;
  bool two_sources = false;
};

// The first difference between the layouts of two steps, for people; empty where they are the same.
// The order in which labels or pairs were declared makes none.
std::string first_difference(const StepLayout& step, const StepLayout& other);

// Every label's segments, in declared order, are its whole layout; zero spans count. Throws
// invalid_argument naming a negative span.
StepLayout layout_of_labels(std::span<const Segment> segments, bool causal);

// A pair's labels must list the same requests in the same order. Throws invalid_argument naming the
// pair and the first difference, a label that no segment declares, or segments without any pair.
StepLayout layout_of_cross(std::span<const Segment> segments, std::span<const LabelPair> pairs);

// Keys of segment i: prefix span and query span together, in one layout or as two sources. Throws
// as layout_of_cross.
StepLayout layout_of_prefixed(std::span<const Segment> segments, std::span<const LabelPair> pairs,
                              bool causal, bool two_sources);

}  // namespace ragged::detail
