#include "case.hpp"

#include <cmath>
#include <numeric>

#include "options.hpp"

namespace ragged::tools {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

void same_count(const char* option, std::size_t count, std::size_t num_segments) {
  if (count != num_segments) {
    refuse(std::string(option) + ": expected " +
           counted(static_cast<std::int64_t>(num_segments), "length") +
           ", one for each segment of --lengths, got " + std::to_string(count));
  }
}

AttentionKind kind_of(const CaseOptions& o) {
  const int named = (o.kv_lengths ? 1 : 0) + (o.prefix_lengths ? 1 : 0) + (o.block_size ? 1 : 0);
  if (named > 1) {
    refuse("--kv-lengths, --prefix-lengths, --block-size: expected at most one of them, got " +
           std::to_string(named));
  }
  if (o.kv_lengths) return AttentionKind::cross;
  if (o.prefix_lengths) return AttentionKind::prefixed;
  return o.block_size ? AttentionKind::block_causal : AttentionKind::self;
}

}  // namespace

std::vector<std::int64_t> Case::key_lengths() const {
  if (problem.kind == AttentionKind::cross || prefix_lengths.empty()) {
    return kv_lengths.empty() ? q_lengths : kv_lengths;
  }
  std::vector<std::int64_t> joined = q_lengths;
  for (std::size_t i = 0; i < joined.size(); ++i) joined[i] += prefix_lengths.at(i);
  return joined;
}

StepLayouts Case::layouts() const {
  const auto assign = [](Layout& layout, const std::vector<std::int64_t>& lengths,
                         std::string_view argument) {
    layout.assign_offsets(IndexView(offsets_from_lengths(lengths)), argument);
  };
  StepLayouts result;
  const bool shares =
      problem.kind == AttentionKind::self || problem.kind == AttentionKind::block_causal;
  assign(result.q, q_lengths, shares ? "cu_seqlens" : "q_cu_seqlens");
  result.kv_is_q = shares || problem.two_sources;
  if (problem.two_sources) {
    assign(result.prefix, prefix_lengths, "prefix_cu_seqlens");
  } else if (!shares) {
    assign(result.kv, key_lengths(), "kv_cu_seqlens");
  }
  return result;
}

std::string Case::describe() const {
  const auto total = [](const std::vector<std::int64_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  };
  std::string text(to_string(problem.kind));
  if (problem.causal) text += " causal";
  if (problem.kind == AttentionKind::block_causal) {
    text += " of " + std::to_string(problem.block_size);
  }
  text += ", " + counted(static_cast<std::int64_t>(q_lengths.size()), "segment") + ", " +
          counted(total(q_lengths), "token");
  if (const std::int64_t keys = total(key_lengths());
      problem.kind == AttentionKind::cross || problem.kind == AttentionKind::prefixed) {
    text += " on " + counted(keys, "key");
    if (problem.two_sources) text += " in two sources";
  }
  text += ", " + counted(problem.num_qo_heads, "head");
  if (problem.num_kv_heads != problem.num_qo_heads) {
    text += " on " + std::to_string(problem.num_kv_heads);
  }
  return text + " of " + std::to_string(problem.head_dim) + ", " +
         std::string(to_string(problem.dtype));
}

void add_case_options(CLI::App& app, CaseOptions& o) {
  const std::string group = "What to compute";
  const auto add = [&](const char* name, const char* type, const char* help, auto take) {
    add_value(app, group, name, type, help, take);
  };
  add("--lengths", "LIST",
      "Tokens of each segment; COUNTxTOKENS repeats. Example: --lengths 3,17,8x64",
      [&](const std::string& text) { o.lengths = parse_lengths("--lengths", text); });
  add("--kv-lengths", "LIST",
      "Cross-attention: keys of each segment. Example: --lengths 8x1 --kv-lengths 8x1500",
      [&](const std::string& text) { o.kv_lengths = parse_lengths("--kv-lengths", text); });
  add("--prefix-lengths", "LIST",
      "Prefixed: keys before each segment's own. Example: --lengths 50,51 --prefix-lengths 816,0",
      [&](const std::string& text) { o.prefix_lengths = parse_lengths("--prefix-lengths", text); });
  add("--block-size", "TOKENS",
      "Block-causal: tokens of one block. Example: --lengths 1500 --block-size 50",
      [&](const std::string& text) { o.block_size = parse_integer("--block-size", text, 1); });
  add_flag(app, group, "--causal",
           "Each query sees the keys up to its own position. Example: --lengths 4096 --causal",
           o.causal);
  add_flag(app, group, "--two-sources",
           "Prefixed: keep prefix and fresh keys in tensors of their own. Example: --lengths 50 "
           "--prefix-lengths 816 --two-sources",
           o.two_sources);
  add("--workload", "NAME",
      "A named workload; 'ragged bench --list' shows them. Example: --workload qwen25vl-window",
      [&](const std::string& text) { o.workload = text; });
  add("--heads", "N", "Query heads, 8 unless said. Example: --heads 32",
      [&](const std::string& text) {
        o.num_qo_heads = static_cast<int>(parse_integer("--heads", text, 1, 65535));
      });
  add("--kv-heads", "N", "Key and value heads, as --heads unless said. Example: --kv-heads 8",
      [&](const std::string& text) {
        o.num_kv_heads = static_cast<int>(parse_integer("--kv-heads", text, 1, 65535));
      });
  add("--head-dim", "N", "Columns of a head, 64 unless said. Example: --head-dim 72",
      [&](const std::string& text) {
        o.head_dim = static_cast<int>(parse_integer("--head-dim", text, 1, 65535));
      });
  add("--dtype", "TYPE", "bf16, fp16 or fp32, fp32 unless said. Example: --dtype bf16",
      [&](const std::string& text) { o.dtype = read_dtype("--dtype", text); });
  add("--sm-scale", "X",
      "Factor of the scores, head_dim^-0.5 unless said. Example: --sm-scale 0.125",
      [&](const std::string& text) { o.sm_scale = parse_number("--sm-scale", text); });
}

Case case_of(const Workload& workload) {
  return {workload.name, workload.problem, workload.q_lengths, workload.kv_lengths,
          workload.prefix_lengths};
}

void override_problem(Problem& problem, const CaseOptions& o) {
  if (o.num_qo_heads) {
    // One key head for each query head unless the options say otherwise.
    problem.num_qo_heads = *o.num_qo_heads;
    problem.num_kv_heads = *o.num_qo_heads;
  }
  if (o.num_kv_heads) problem.num_kv_heads = *o.num_kv_heads;
  if (o.head_dim) {
    problem.head_dim = *o.head_dim;
    problem.sm_scale = 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
  }
  if (o.sm_scale) problem.sm_scale = *o.sm_scale;
  if (o.dtype) problem.dtype = *o.dtype;
  if (o.causal) problem.causal = true;
  if (o.two_sources) problem.two_sources = true;
  if (problem.causal && problem.kind == AttentionKind::cross) {
    refuse(
        "--causal: cross-attention is never causal; expected --prefix-lengths instead of "
        "--kv-lengths where the keys end with the queries' own");
  }
  if (problem.causal && problem.kind == AttentionKind::block_causal) {
    refuse("--causal: expected it without --block-size, which is a mask of its own");
  }
  if (problem.two_sources && problem.kind != AttentionKind::prefixed) {
    refuse("--two-sources: expected prefixed attention, got " +
           std::string(to_string(problem.kind)));
  }
  problem.validate();
}

Case build_case(const CaseOptions& o) {
  if (o.workload.has_value() == o.lengths.has_value()) {
    refuse(std::string("--lengths or --workload: expected one of them, got ") +
           (o.lengths ? "both" : "neither"));
  }
  Case result;
  if (o.workload) {
    if (o.kv_lengths || o.prefix_lengths || o.block_size) {
      refuse(
          "--kv-lengths, --prefix-lengths, --block-size: expected --lengths with them, got "
          "--workload, which has its own");
    }
    result = case_of(find_workload(*o.workload));
  } else {
    result.problem.kind = kind_of(o);
    result.name = "lengths";
    result.problem.num_qo_heads = 8;
    result.problem.num_kv_heads = o.num_qo_heads.value_or(8);
    result.problem.head_dim = 64;
    result.problem.sm_scale = 0.125;
    result.problem.dtype = DType::fp32;
    result.problem.block_size = o.block_size.value_or(0);
    result.q_lengths = *o.lengths;
    if (o.kv_lengths) {
      same_count("--kv-lengths", o.kv_lengths->size(), o.lengths->size());
      result.kv_lengths = *o.kv_lengths;
    }
    if (o.prefix_lengths) {
      same_count("--prefix-lengths", o.prefix_lengths->size(), o.lengths->size());
      result.prefix_lengths = *o.prefix_lengths;
    }
  }
  override_problem(result.problem, o);
  return result;
}

}  // namespace ragged::tools
