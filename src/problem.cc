#include <cmath>

#include <ragged/plan.hpp>

namespace ragged {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

}  // namespace

void Problem::validate() const {
  const auto at_least_one = [](std::string_view name, int value) {
    if (value < 1) {
      refuse(std::string(name) + " must be at least 1; got " + std::to_string(value));
    }
  };
  if (static_cast<unsigned>(kind) > static_cast<unsigned>(AttentionKind::prefixed)) {
    refuse("kind must be one of self, cross, block_causal, prefixed; got " +
           std::to_string(static_cast<unsigned>(kind)));
  }
  at_least_one("num_qo_heads", num_qo_heads);
  at_least_one("num_kv_heads", num_kv_heads);
  if (num_qo_heads % num_kv_heads != 0) {
    refuse("num_qo_heads must be a multiple of num_kv_heads; got " + std::to_string(num_qo_heads) +
           " and " + std::to_string(num_kv_heads));
  }
  if (head_dim < 8 || head_dim > 256 || head_dim % 8 != 0) {
    refuse("head_dim must be a multiple of 8 in 8..256; got " + std::to_string(head_dim));
  }
  if (!std::isfinite(sm_scale)) {
    refuse("sm_scale must be finite; got " + std::to_string(sm_scale));
  }
  if (static_cast<unsigned>(dtype) > static_cast<unsigned>(DType::fp32)) {
    refuse("dtype must be one of bf16, fp16, fp32; got " +
           std::to_string(static_cast<unsigned>(dtype)));
  }
  if (causal && kind == AttentionKind::cross) {
    refuse("causal must be false in cross attention; got true");
  }
  if (kind == AttentionKind::block_causal) {
    if (causal) {
      refuse(
          "causal must be false in block_causal attention, the block structure is the whole "
          "mask; got true");
    }
    if (block_size < 1) {
      refuse("block_size must be at least 1; got " + std::to_string(block_size));
    }
  } else if (block_size != 0) {
    refuse("block_size must be 0 in " + std::string(to_string(kind)) + " attention; got " +
           std::to_string(block_size));
  }
  if (two_sources && kind != AttentionKind::prefixed) {
    refuse("two_sources must be false in " + std::string(to_string(kind)) + " attention; got true");
  }
}

}  // namespace ragged
