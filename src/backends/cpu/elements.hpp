#pragma once

// The 16-bit element types as plain bits; the vector code gives them their meaning.

#include <cstdint>

namespace ragged::cpu {

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

}  // namespace ragged::cpu
