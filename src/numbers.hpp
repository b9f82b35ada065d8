#pragma once

// Element types as bits: bf16 and fp16 to float and back, rounding to nearest even. Plain integer
// arithmetic, the same on every compiler and machine.

#include <bit>
#include <cstdint>
#include <cstring>

#include <ragged/declare.hpp>

namespace ragged {

constexpr float bf16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::uint16_t float_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // A NaN keeps its sign and stays a NaN, also where its payload lies in the bits that go.
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float fp16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {  // zero, or a subnormal: mantissa * 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 0x1fU ? 0xffU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

constexpr std::uint16_t float_to_fp16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000U) {  // NaN
    half = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  } else if (magnitude >= 0x47800000U) {  // 2^16 and above, Inf included
    half = 0x7c00U;
  } else if (magnitude >= 0x38800000U) {  // normal: 2^-14 and above; rounding may carry into Inf
    half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  } else {
    // Subnormal: adding 1/2 in fp32 leaves value * 2^24, rounded to nearest even, in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  }
  return static_cast<std::uint16_t>(sign | half);
}

// Element at `data`, widened; exact.
inline float load_element(const void* data, DType dtype) noexcept {
  if (dtype == DType::fp32) {
    float value = 0;
    std::memcpy(&value, data, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, data, sizeof(bits));
  return dtype == DType::bf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

// Rounds `value` to `dtype` and writes it at `data`.
inline void store_element(void* data, DType dtype, float value) noexcept {
  if (dtype == DType::fp32) {
    std::memcpy(data, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = dtype == DType::bf16 ? float_to_bf16(value) : float_to_fp16(value);
  std::memcpy(data, &bits, sizeof(bits));
}

}  // namespace ragged
