#pragma once

// A case that lies in a safetensors file.

#include <optional>
#include <string>

#include "expected.hpp"

namespace ragged::tools {

struct FileCase {
  Case c;
  Inputs inputs;
  // The file's own out and lse; none where it has no out, or where an option changed what is asked.
  std::optional<Expected> expected;
};

// Reads q, k, v ([tokens, heads, head_dim], one of BF16, F16, F32) with either cu_seqlens (self;
// with a block size block-causal) or q_cu_seqlens and kv_cu_seqlens (cross; causal: prefixed,
// aligned to the end of the keys). Offsets are I32 or I64. Metadata may hold sm_scale, causal (0,
// 1, true, false) and block_size; options win over it. out and lse are optional. Throws
// ragged::Error(invalid_argument) naming the file, the tensor, what was expected and what came.
FileCase read_case(const std::string& path, const CaseOptions& options);

}  // namespace ragged::tools
