#include "wrapper_options.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "device_facts.hpp"

namespace ragged::detail {
namespace {

using OptionalCount = std::optional<std::int64_t>;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

void check_positive(std::string_view option, const OptionalCount& value) {
  if (value && *value < 1) {
    refuse(std::string(option) + " must be at least 1; got " + std::to_string(*value));
  }
}

std::int64_t required(std::string_view option, const OptionalCount& value) {
  if (!value) {
    refuse(std::string(option) + " is required with accelerator_graph; none was given");
  }
  return *value;
}

void check_ceiling(std::string_view argument, std::string_view unit, std::int64_t count,
                   std::string_view option, const OptionalCount& ceiling) {
  if (!ceiling || count <= *ceiling) return;
  throw Error(ErrorCode::out_of_range, std::string(argument) + ": " + std::to_string(count) + " " +
                                           std::string(unit) + " exceed " + std::string(option) +
                                           " = " + std::to_string(*ceiling));
}

}  // namespace

Problem problem_of(AttentionKind kind, const WrapperOptions& options) {
  if (kind == AttentionKind::block_causal) {
    check_positive("block_size", options.block_size);
  } else if (options.block_size != 0) {
    refuse("block_size belongs to block_causal attention alone; got " +
           std::to_string(options.block_size) + " for " + std::string(to_string(kind)));
  }
  Problem problem;
  problem.kind = kind;
  problem.num_qo_heads = options.num_qo_heads;
  problem.num_kv_heads = options.num_kv_heads;
  problem.head_dim = options.head_dim;
  // A head_dim below 1 has no scale; validate() names it first.
  problem.sm_scale = options.sm_scale.value_or(
      options.head_dim > 0 ? 1.0 / std::sqrt(static_cast<double>(options.head_dim)) : 1.0);
  problem.dtype = options.q_data_type;
  problem.block_size = options.block_size;
  problem.validate();
  return problem;
}

DeviceFacts facts_of(const WrapperOptions& options) {
  if (options.threads < 0) {
    refuse("threads must be at least 0; got " + std::to_string(options.threads));
  }
  if (options.facts) {
    if (options.facts->device != options.device) {
      refuse("facts must be of device " + to_string(options.device) + "; got those of " +
             to_string(options.facts->device));
    }
    DeviceFacts facts = *options.facts;
    if (options.threads > 0) facts.threads = options.threads;
    return facts;
  }
  if (options.device.kind == DeviceKind::cpu) {
    if (options.threads > 0 || options.executor == nullptr)
      return DeviceFacts::host(options.threads);
    const int offered = options.executor->concurrency();
    if (offered < 1) {
      refuse("executor must offer at least 1 worker; its concurrency() is " +
             std::to_string(offered));
    }
    return DeviceFacts::host(std::min(offered, detail::kMostThreads));
  }
  return DeviceFacts::of(options.device);
}

std::optional<Ceilings> ceilings_of(AttentionKind kind, const WrapperOptions& options) {
  check_positive("max_num_segments", options.max_num_segments);
  check_positive("max_total_tokens", options.max_total_tokens);
  check_positive("max_total_kv_tokens", options.max_total_kv_tokens);
  if (!options.accelerator_graph) return std::nullopt;
  Ceilings ceilings;
  ceilings.max_num_segments = required("max_num_segments", options.max_num_segments);
  ceilings.max_total_tokens = required("max_total_tokens", options.max_total_tokens);
  const bool own_keys = kind == AttentionKind::cross || kind == AttentionKind::prefixed;
  ceilings.max_total_kv_tokens =
      own_keys ? options.max_total_kv_tokens.value_or(ceilings.max_total_tokens)
               : ceilings.max_total_tokens;
  return ceilings;
}

void check_ceilings(const WrapperOptions& options, const StepLayouts& layouts,
                    const ArgumentNames& names) {
  check_ceiling(names.q, "segments", layouts.q.num_segments(), "max_num_segments",
                options.max_num_segments);
  check_ceiling(names.q, "tokens", layouts.q.total_tokens(), "max_total_tokens",
                options.max_total_tokens);
  const std::int64_t key_tokens = layouts.keys().total_tokens() + layouts.prefix.total_tokens();
  if (options.max_total_kv_tokens) {
    check_ceiling(names.keys, "key tokens", key_tokens, "max_total_kv_tokens",
                  options.max_total_kv_tokens);
  } else {
    check_ceiling(names.keys, "key tokens", key_tokens, "max_total_tokens",
                  options.max_total_tokens);
  }
}

}  // namespace ragged::detail
