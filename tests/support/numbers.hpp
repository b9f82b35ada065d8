#pragma once

// Element types of tensors in test code: bits and back, rounded to nearest even, without relying on
// the library that is under test.

#include <bit>
#include <cstdint>
#include <cstring>

#include <ragged/declare.hpp>

namespace ragged::test {

inline std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t fp16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5 leaves value / 2^-24, rounded, in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

inline float fp16_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 0xffU : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

// Writes `value`, rounded to `dtype`, at `to`.
inline void store(DType dtype, void* to, float value) {
  if (dtype == DType::fp32) {
    std::memcpy(to, &value, 4);
  } else {
    const std::uint16_t bits = dtype == DType::bf16 ? bf16_bits(value) : fp16_bits(value);
    std::memcpy(to, &bits, 2);
  }
}

inline float load(DType dtype, const void* from) {
  if (dtype == DType::fp32) {
    float value = 0;
    std::memcpy(&value, from, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, 2);
  return dtype == DType::bf16 ? bf16_value(bits) : fp16_value(bits);
}

inline float rounded(DType dtype, float value) {
  if (dtype == DType::fp32) return value;
  return dtype == DType::bf16 ? bf16_value(bf16_bits(value)) : fp16_value(fp16_bits(value));
}

// Spacing of the type's values at 1.
constexpr double ulp_of_one(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-7 : dtype == DType::fp16 ? 0x1p-10 : 0x1p-23;
}

// Smallest normal value of the type; the spacing no longer shrinks below it.
constexpr double smallest_normal(DType dtype) { return dtype == DType::fp16 ? 0x1p-14 : 0x1p-126; }

}  // namespace ragged::test
